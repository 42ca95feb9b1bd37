"""Fine-tuning: a run that begins with a model folder, whatever its ids are."""

import json
import re
from pathlib import Path

import digit_text
import foreign_folder
import numpy as np
import pytest
import yaml
from small_run import metrics

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train
from reference.weights import numpy

pytestmark = pytest.mark.one_backend

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "fine_tune.md"
CONFIG = """
model: {folder: trained}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 64}
training: {steps: 2, warmup_steps: 1, learning_rate: 0.01, checkpoint_every: 1}
output: tuned
"""

LONGER = [
    *("training.steps=60", "training.warmup_steps=10", "training.learning_rate=0.02"),
    *("training.checkpoint_every=20", "training.schedule=constant"),
    *("training.average_last=1", "training.label_smoothing=0.0"),
]


@pytest.fixture
def project(config_file):
    """The folder of the small run, with a config that goes on with `trained`."""
    (config_file.parent / "tune.yaml").write_text(CONFIG)
    return config_file.parent


def test_a_model_of_other_ids_learns_and_translates_better(project):
    """By a run config alone: pairs are known by heart; adapters then learn others."""
    pairs = digit_text.pairs(8)
    digit_text.write_files(project, "train", 8)
    sources, references = zip(*pairs, strict=True)

    def chrf(translator):
        (score,) = kt.evaluation.evaluate(
            translator.translate(sources), references, metrics=("chrf",)
        )
        return score.score

    before = chrf(foreign_folder.write("trained", "marian", beam_size=1, max_length=10))
    train(load_config("tune.yaml", LONGER))
    first, *_, last = metrics(project / "tuned")
    assert last["loss"] < 0.6 * first["loss"]
    assert last["token_accuracy"] > 2 * first["token_accuracy"]
    assert chrf(kt.Translator.load("tuned/averaged")) > before + 10
    digit_text.write_files(project, "train", 8, seed=2)
    options = [*LONGER, "training.steps=20", "training.checkpoint_every=5"]
    options += ["model.folder=tuned/averaged", "training.lora={}", "output=adapted"]
    train(load_config("tune.yaml", options))
    first, *_, last = metrics(project / "adapted")
    assert last["loss"] < 0.9 * first["loss"]


@pytest.mark.parametrize("family", foreign_folder.IDS)
def test_a_run_keeps_ids_tokenizers_and_decoding_of_its_folder(project, family):
    before = foreign_folder.write("trained", family, beam_size=3, max_length=6)
    assert tuple(before.model.config.special_ids.values()) == foreign_folder.IDS[family]
    assert before.model.config.tie_embeddings == "all"
    config = load_config("tune.yaml", ["decoding.beam_size=2"])
    assert load_config("tune.yaml", ["decoding.beam_size=2"]) == config
    train(config)
    stored = load_config("tuned/config.yaml")
    assert stored.model_copy(update={"output": config.output}) == config
    after = kt.Translator.load("tuned/averaged")
    assert after.model.config == before.model.config
    assert after.tokenizer.model == before.tokenizer.model
    assert after.target_tokenizer.model == before.target_tokenizer.model
    assert after.decoding == before.decoding.updated({"beam_size": 2})
    card = (project / "tuned" / "averaged" / "README.md").read_text()
    assert "\n> # A translation model of keras-transformer\n" in card  # and its licence


def test_a_run_of_before_goes_on_with_the_decoding_that_it_began_with(project):
    """Versions that took no decoding options from a folder wrote no ids, either."""
    foreign_folder.write("trained", "marian", beam_size=3, max_length=6)
    train(load_config("tune.yaml"))
    stored = yaml.safe_load((project / "tuned" / "config.yaml").read_text())
    for name in ("pad_id", "start_id", "end_id"):
        del stored["model"][name]
    stored["decoding"] |= {"beam_size": 4}
    del stored["decoding"]["max_length"]
    (project / "tuned" / "config.yaml").write_text(yaml.safe_dump(stored))
    for steps in (3, 4):
        train(load_config("tune.yaml", [f"training.steps={steps}"]))
        found = kt.Translator.load("tuned/averaged").decoding
        assert found == kt.decoding.DecodingOptions()
    train(load_config("tune.yaml", ["training.steps=5", "decoding.beam_size=6"]))
    assert kt.Translator.load("tuned/averaged").beam_size == 6


def test_a_folder_whose_config_and_tokenizers_differ_is_refused(project):
    foreign_folder.write("trained", "nllb")
    path = project / "trained" / "config.json"
    config = json.loads(path.read_text())
    config["model"]["start_id"] = 0
    path.write_text(json.dumps(config))
    with pytest.raises(InputError, match=r"'start_id': 2.* its model has .*_id': 0"):
        train(load_config("tune.yaml"))


def test_a_new_vocabulary_keeps_the_rows_of_shared_pieces(project):
    before = foreign_folder.write("trained", "marian", beam_size=3, max_length=6)
    options = ["model.new_vocabulary=true", "training.freeze=[embeddings]"]
    options += ["tokenizer={vocabulary_size: 270, split_digits: true}"]
    config = load_config("tune.yaml", options)
    train(config)
    train(load_config("tune.yaml", [*options, "training.steps=3"]))
    assert load_config("tuned/config.yaml").model == config.model
    after = kt.Translator.load("tuned/averaged")
    assert after.model.config.special_ids == {"pad_id": 0, "start_id": 1, "end_id": 2}
    assert after.decoding == before.decoding
    old, new = (t.target_tokenizer.ids_of(["7"]) for t in (before, after))
    rows = [
        (numpy(embedding.embeddings)[row], numpy(embedding.bias)[row])
        for embedding, (row,) in (
            (before.model.output_embedding, old),
            (after.model.output_embedding, new),
        )
    ]
    for one, other in zip(*rows, strict=True):
        np.testing.assert_array_equal(one, other)
    assert len(after.translate(["123"])) == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["tokenizer={vocabulary_size: 270}"], "or set model.new_vocabulary to true"),
        (["model.new_vocabulary=1"], "new_vocabulary: expected true or false, got 1"),
        (["model={new_vocabulary: true}"], "is for a trained model; give model.fold"),
        (["model.new_vocabulary=true", "training.lora={}"], "to its own vocabulary;"),
    ],
)
def test_a_vocabulary_that_does_not_fit_is_refused(project, options, message):
    foreign_folder.write("trained", "marian")
    with pytest.raises(InputError, match=message):
        load_config("tune.yaml", options)


def test_what_the_guide_says_runs(project, monkeypatch):
    foreign_folder.write("models/en-de", "nllb")
    text = GUIDE.read_text("utf-8")
    first, *others = map(yaml.safe_load, re.findall("```yaml\n(.*?)```", text, re.S))
    for changed in ({}, *others):
        sections = {
            name: first.get(name, {}) | changed.get(name, {})
            for name in {**first, **changed}
        }
        config = kt.training.RunConfig(**sections)
        assert config.model["folder"].endswith("models/en-de")
    (program,) = re.findall("```python\n(.*?)```", text, re.S)
    exec(program.replace("epochs=3", "epochs=1, verbose=0"), {})
    tuned = kt.Translator.load("models/en-de-tuned")
    assert tuple(tuned.model.config.special_ids.values()) == (1, 2, 2)
