"""Tests that a run keeps the batches that it was begun with, and says what differs."""

import json

import pytest

from keras_transformer import backends
from keras_transformer.backends.distribution import Distribution
from keras_transformer.data.batching import RULE
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.training import assembly
from keras_transformer.training import load_config
from keras_transformer.training import run_opening
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend


def parts_of(config, devices=1):
    """What a run is made of, and what it says, without a step taken."""
    told = []
    with run_opening.opened(config, told.append):
        distribution = Distribution(num_replicas=devices)
        return assembly.build_parts(config, distribution, told.append), told


@pytest.fixture
def begun(config_file):
    """The folder of a run with a checkpoint."""
    train(load_config(config_file, ["training.steps=2"]))
    return config_file.parent / "runs" / "small"


def test_another_number_of_devices_is_said(config_file, begun):
    record = json.loads((begun / "batches.json").read_text())
    shares = {"devices": 1, "micro_batches": 1}
    assert record == {"rule": RULE, **shares, "sizes_multiple_of": 1}
    config = load_config(config_file, ["training.steps=2"])
    alone, told = parts_of(config)
    assert not any("begun" in text for text in told)
    many, told = parts_of(config, devices=4)
    assert (
        "the run was begun with devices 1, now it is 4; batches and results are the "
        "same, but for rounding"
    ) in told
    assert len(many.batches) == len(alone.batches)
    assert all(rows % 4 == 0 for rows, _, _ in many.batches.shapes)


def test_sizes_of_batches_stay_those_of_the_device_that_began(config_file, monkeypatch):
    config = load_config(config_file, ["training.steps=2"])
    with monkeypatch.context() as context:
        context.setattr(backends, "on_gpu", lambda: True)
        train(config)
        begun, _ = parts_of(config)
    assert all(S % 8 == T % 8 == 0 for _, S, T in begun.batches.shapes)
    continued, _ = parts_of(config)
    assert continued.batches.shapes == begun.batches.shapes


def test_devices_and_micro_batches_of_a_run_may_change(config_file, begun):
    options = ["training.steps=2", "training.micro_batches=2"]
    parts, told = parts_of(load_config(config_file, options))
    assert any("begun with micro_batches 1, now it is 2" in text for text in told)
    assert parts.translator.model.micro_batches == 2
    train(load_config(config_file, options))
    parts_of(load_config(config_file, [*options, "training.distribution=mirrored"]))


def test_a_run_of_a_version_without_rules_goes_on_as_it_was_begun(config_file, begun):
    (begun / "batches.json").unlink()
    options = ["training.steps=2", "training.micro_batches=2"]
    with pytest.raises(InputError, match=r"training\.micro_batches: 1 -> 2"):
        parts_of(load_config(config_file, options))
    config = load_config(config_file, ["training.steps=2"])
    parts, told = parts_of(config)
    assert parts.batches.rule == parts.validation.batches.batches.rule == 1
    assert not parts.translator.model.draws_by_row
    _, told = parts_of(config, devices=2)
    assert (
        "warning: the run was begun with devices 1, now it is 2, which changes its "
        "batches"
    ) in told
    new, _ = parts_of(load_config(config_file, ["output=new"]))
    assert new.batches.rule == RULE and new.translator.model.draws_by_row


def test_user_defined_symbols_come_apart_in_a_run_that_began_so(config_file):
    options = [
        "training.steps=2",
        "tokenizer.vocabulary_size=271",
        'tokenizer.user_defined_symbols=["97"]',
        "data.bpe_dropout=0.9",
    ]
    config = load_config(config_file, options)
    train(config)
    tokenizer = Tokenizer.load(config.output / "tokenizer.model")
    rows = tokenizer.encode((config_file.parent / "train.de").read_text().split())
    symbol = tokenizer.pieces(range(tokenizer.vocabulary_size)).index("97")

    def count():
        """How often the symbol is in what is trained on."""
        batches = parts_of(config)[0].batches
        return sum(
            (batches[index][0]["target"] == symbol).sum()
            for index in range(len(batches))
        )

    whole = sum(row.count(symbol) for row in rows)
    assert count() == whole > 0
    (config.output / "batches.json").unlink()
    assert count() < whole


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"rule": 1}', '{"rule": "2"}'])
def test_a_damaged_rule_is_named(text, config_file, begun):
    (begun / "batches.json").write_text(text)
    config = load_config(config_file, ["training.steps=2"])
    with pytest.raises(InputError, match=r"batches\.json has no valid batch rule"):
        parts_of(config)


def test_the_bound_of_the_source_reaches_training_and_validation(config_file):
    options = ["data.batch_source_tokens=40"]
    parts, _ = parts_of(load_config(config_file, options))
    for batches in (parts.batches, parts.validation.batches.batches):
        assert all(rows * S <= 40 or rows == 1 for rows, S, _ in batches.shapes)
