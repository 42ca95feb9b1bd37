"""A whole run on a small corpus: its folder, its end, and what goes wrong."""

import functools
import json
import os
import shutil
import signal
from pathlib import Path

import digit_text
import numpy as np
import pytest
import yaml

import keras_transformer as kt
from keras_transformer.data import TokenBatches
from keras_transformer.errors import InputError
from keras_transformer.models.weights import read_arrays
from keras_transformer.training import assembly
from keras_transformer.training import average
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.run_folder import opened
from keras_transformer.training.validation import Validation

FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "en-de.format-1"
CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 270, split_digits: true}
data:
  train: [{source: train.en, target: train.de}]
  validation: {source: val.en, target: val.de}
  test: {source: val.en, target: val.de}
  batch_tokens: 64
  max_length: 200
training: {steps: 6, warmup_steps: 3, learning_rate: 0.01, validate_every: 4,
           checkpoint_every: 2}
decoding: {beam_size: 2, length_penalty: 0.6}
"""


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    digit_text.write_files(tmp_path, "train", 60)
    digit_text.write_files(tmp_path, "val", 3, seed=2)
    (tmp_path / "small.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "small.yaml"


def weights_of(folder):
    return read_arrays(folder / "model.weights.h5")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def assert_mean(actual, parts):
    for name, array in actual.items():
        mean = np.mean([part[name] for part in parts], axis=0)
        np.testing.assert_allclose(array, mean, rtol=1e-5, atol=1e-7, err_msg=name)


def metrics(folder):
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_equal_runs(one, other):
    """Weights, optimizer and metrics of two runs are the same to the last bit."""
    both = [folder / "checkpoints" for folder in (one, other)]
    steps = [sorted(path.name for path in folder.iterdir()) for folder in both]
    assert steps[0] == steps[1]
    for step in steps[0]:
        for name in ("model.weights.h5", "state.h5"):
            assert_equal(*(read_arrays(folder / step / name) for folder in both))
    assert_equal(weights_of(one / "averaged"), weights_of(other / "averaged"))
    timed = ("seconds", "tokens_per_second")
    lines = [
        [{k: v for k, v in line.items() if k not in timed} for line in metrics(folder)]
        for folder in (one, other)
    ]
    assert lines[0] == lines[1]


def terminating_at(step):
    """A `Progress` in whose step a SIGTERM comes."""

    class Terminating(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == step:
                os.kill(os.getpid(), signal.SIGTERM)

    return Terminating


@pytest.mark.no_tensorflow
def test_a_run_from_config_to_model_folder(config_file, capsys):
    config = load_config(config_file, ["training.average_last=3"])
    scores = train(config)
    folder = config_file.parent / "runs" / "small"
    output = capsys.readouterr().out.splitlines()
    assert output[-1] == f"test BLEU = {scores[0].score:.1f} {scores[0].signature}"
    assert "exact matches: 0 of 3 (0.0%)" in output
    steps = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert steps == ["step-0000002", "step-0000004", "step-0000006"]
    assert [line["step"] for line in metrics(folder)] == [2, 4, 6]
    assert "val_bleu" in metrics(folder)[1]
    # `averaged/` is the mean of the checkpoints, on disk and in use.
    parts = [weights_of(folder / "checkpoints" / step) for step in steps]
    assert_mean(weights_of(folder / "averaged"), parts)
    translator = kt.Translator.load(folder / "averaged")
    hypotheses = (folder / "test.hypotheses.txt").read_text().splitlines()
    sources = (config_file.parent / "val.en").read_text().splitlines()
    assert translator.translate(sources) == hypotheses
    assert kt.Translator.load(folder / "best").beam_size == 2
    assert "Test: BLEU" in (folder / "averaged" / "README.md").read_text()

    average(folder, 1, config_file.parent / "last")
    assert_equal(weights_of(config_file.parent / "last"), parts[2])
    with pytest.raises(InputError, match="has 3 checkpoints; --last must be between"):
        average(folder, 4, config_file.parent / "more")

    # Once more: it says that it is finished, and trains no step.
    train(config)
    assert "finished already" in capsys.readouterr().err
    assert len(metrics(folder)) == 3


def test_a_stopped_run_goes_on_to_the_same_weights(config_file, monkeypatch):
    train(load_config(config_file, ["output=whole"]))

    stopped = load_config(config_file, ["output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(3))
        with pytest.raises(running.Interrupted, match="SIGTERM at step 3") as error:
            train(stopped)
    assert error.value.exit_code == 143
    folder = config_file.parent
    assert (folder / "stopped" / "checkpoints" / "step-0000003").is_dir()
    train(stopped)
    assert_equal_runs(folder / "stopped", folder / "whole")
    # The checkpoint of the signal is no part of the average.
    assert not (folder / "stopped" / "checkpoints" / "step-0000003").exists()


@pytest.mark.one_backend
def test_another_config_is_refused_with_the_difference(config_file):
    train(load_config(config_file, ["training.steps=2"]))
    with pytest.raises(InputError, match=r"training.steps: 2 -> 6"):
        train(load_config(config_file))


@pytest.mark.one_backend
def test_a_foreign_folder_is_refused(config_file):
    folder = config_file.parent / "letters"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="letters exists and is not a run folder"):
        train(load_config(config_file, ["output=letters"]))
    with pytest.raises(InputError, match="cannot write the run folder"):
        train(load_config(config_file, ["output=letters/letter.txt/run"]))
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


@pytest.mark.one_backend
def test_bad_corpora_are_refused(config_file):
    folder = config_file.parent
    (folder / "train.de").write_text("eine Zeile\n")
    with pytest.raises(InputError, match=r"train.en has 60 lines but .*train.de has 1"):
        train(load_config(config_file))
    (folder / "train.de").unlink()
    with pytest.raises(InputError, match=r"cannot read .*train.de"):
        train(load_config(config_file))


@pytest.mark.one_backend
def test_overlong_and_empty_pairs_are_dropped_and_counted(config_file, capsys):
    folder = config_file.parent
    for language in ("en", "de"):
        with (folder / f"train.{language}").open("a") as file:
            file.write("\n" + "1" * 100_000 + "\n")
    train(load_config(config_file, ["training.steps=1"]))
    assert (
        "60 pairs kept, 2 dropped: 1 empty, 1 longer than 200 tokens"
        in capsys.readouterr().err
    )


@pytest.mark.one_backend
def test_a_loss_that_is_no_number_stops_the_run(config_file, monkeypatch):
    """A batch whose weights are not finite makes it so, at a step that is known."""
    take = TokenBatches.__getitem__

    def broken(self, index):
        inputs, labels, weights = take(self, index)
        return inputs, labels, weights * (np.nan if index == 4 else 1.0)

    monkeypatch.setattr(TokenBatches, "__getitem__", broken)
    config = load_config(config_file, ["training.validate_every=100"])
    with pytest.raises(InputError, match=r"the loss of step 5 \(batch") as error:
        train(config)
    assert "the checkpoint of step 4 is kept" in str(error.value)
    folder = config_file.parent / "runs" / "small" / "checkpoints"
    arrays = weights_of(folder / "step-0000004")
    assert all(np.isfinite(array).all() for array in arrays.values())


@pytest.mark.one_backend
def test_two_processes_cannot_train_in_one_folder(config_file):
    config = load_config(config_file)
    with opened(config), pytest.raises(InputError, match="another process trains in"):
        train(config)


@pytest.mark.one_backend
def test_a_full_disk_stops_no_training(config_file, monkeypatch, capsys):
    write = checkpoints.write_arrays

    def full(arrays, path):
        if "step-0000004" in str(path):
            raise InputError(f"cannot write {path}: No space left on device")
        write(arrays, path)

    monkeypatch.setattr(checkpoints, "write_arrays", full)
    train(load_config(config_file))
    found = checkpoints.list_checkpoints(config_file.parent / "runs" / "small")
    assert list(found) == [2, 6]
    message = capsys.readouterr().err
    assert "No space left on device; training goes on without this" in message


@pytest.mark.one_backend
def test_patience_ends_training_and_the_best_are_kept(config_file, monkeypatch, capsys):
    values = iter([0.5, 3.0, 2.0, 2.5, 1.0, 9.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    options = ["steps=12", "validate_every=2", "patience=3", "average_best=2"]
    options = [f"training.{option}" for option in [*options, "keep_checkpoints=1"]]
    config = load_config(config_file, options)
    train(config)
    folder = config_file.parent / "runs" / "small"
    assert "no better validation since step 4: training ends" in capsys.readouterr().err
    assert [line["step"] for line in metrics(folder)] == [2, 4, 6, 8, 10]
    # The best two, and the last one.
    found = checkpoints.list_checkpoints(folder)
    assert list(found) == [4, 8, 10]
    parts = [weights_of(found[step]) for step in (4, 8)]
    assert_mean(weights_of(folder / "averaged"), parts)
    assert_equal(weights_of(folder / "best"), parts[0])
    train(config)
    assert "finished already" in capsys.readouterr().err


def test_the_running_mean_is_what_is_validated_and_kept(config_file):
    """The weights go on as without it; the mean is that of the checkpoints."""
    once = ["training.checkpoint_every=1"]
    train(load_config(config_file, [*once, "output=plain"]))
    train(load_config(config_file, [*once, "training.ema=0.5", "output=mean"]))
    steps = checkpoints.list_checkpoints("mean")
    weights = {step: weights_of(path) for step, path in steps.items()}
    plain = checkpoints.list_checkpoints("plain")
    assert_equal(weights[6], weights_of(plain[6]))
    mean = weights[1]
    for step in range(2, 7):
        mean = {k: 0.5 * mean[k] + 0.5 * array for k, array in weights[step].items()}
    for name, array in weights_of(config_file.parent / "mean" / "averaged").items():
        np.testing.assert_allclose(array, mean[name], rtol=1e-5, atol=1e-7)


def test_micro_batches_and_clipping_train_as_the_whole_batch(config_file, monkeypatch):
    # The same batches for all, of rows that divide by two.
    batches = functools.partial(TokenBatches, rows_multiple_of=2)
    monkeypatch.setattr(
        assembly,
        "TokenBatches",
        lambda *arguments, rows_multiple_of, **options: batches(*arguments, **options),
    )
    options = ["training.clip_norm=0.1", "model.dropout=0.0"]
    train(load_config(config_file, [*options, "output=whole"]))
    train(
        load_config(config_file, [*options, "training.micro_batches=2", "output=parts"])
    )
    train(load_config(config_file, ["model.dropout=0.0", "output=free"]))
    ends = [weights_of(Path(name, "averaged")) for name in ("whole", "parts", "free")]
    for name, array in ends[0].items():
        np.testing.assert_allclose(ends[1][name], array, rtol=0, atol=2e-5)
    assert any(abs(ends[2][name] - a).max() > 1e-3 for name, a in ends[0].items())
    assert all(line["gradient_norm"] > 0.1 for line in metrics(Path("whole")))


@pytest.mark.one_backend
def test_the_token_budget_is_found_once(config_file, monkeypatch):
    monkeypatch.setattr(assembly, "find_batch_tokens", lambda *_: 300)
    config = load_config(config_file, ["data.batch_tokens=auto", "training.steps=2"])
    train(config)
    monkeypatch.setattr(assembly, "find_batch_tokens", lambda *_: 200)
    train(config)
    assert Path("runs/small/batch_tokens").read_text() == "300\n"


@pytest.mark.one_backend
def test_a_trained_model_learns_on_with_frozen_parts(config_file):
    train(load_config(config_file))
    before = weights_of(Path("runs/small/averaged"))
    config = yaml.safe_load(CONFIG)
    del config["tokenizer"]
    config["model"] = {"folder": "runs/small/averaged", "dropout": 0.0}
    file = config_file.with_name("tuned.yaml")
    file.write_text(yaml.safe_dump(config))
    train(load_config(file, ["training.freeze=[embeddings, encoder]"]))
    after = weights_of(Path("runs/tuned/averaged"))
    for name, array in before.items():
        learns = name.startswith("decoder_")
        assert np.array_equal(after[name], array) != learns, name
    # The run folder says all that it was made with.
    train(load_config(Path("runs/tuned/config.yaml"), ["output=runs/tuned"]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("model: {folder: runs/small/averaged, preset: tiny}", "remove one of the two"),
        ("model: {folder: runs/small/averaged, num_heads: 4}", "not that of the train"),
        ("model: {folder: nowhere}", "nowhere is not a model folder"),
    ],
)
@pytest.mark.one_backend
def test_a_trained_model_keeps_its_architecture(line, message, config_file, tmp_path):
    shutil.copytree(FIXTURE, tmp_path / "runs" / "small" / "averaged")
    file = tmp_path / "tuned.yaml"
    file.write_text(f"{line}\ndata: {{phrasebook: en-de}}")
    with pytest.raises(InputError, match=message):
        load_config(file)
