"""A whole run on a small corpus: its folder, its end, and what goes wrong."""

import json
import os
import signal

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data import phrasebook
from keras_transformer.errors import InputError
from keras_transformer.models.weights import read_arrays
from keras_transformer.training import average
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 350, split_digits: true}
data:
  train: [{source: train.en, target: train.de}]
  validation: {source: val.en, target: val.de}
  test: {source: val.en, target: val.de}
  batch_tokens: 256
  max_length: 200
training: {steps: 6, warmup_steps: 3, learning_rate: 0.01, validate_every: 4,
           checkpoint_every: 2, keep_checkpoints: 2, average_last: 2}
decoding: {beam_size: 2, length_penalty: 0.6}
"""


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    for name, count in (("train", 60), ("val", 3)):
        source, target = phrasebook.load("en", "de", "train")
        for language, lines in (("en", source), ("de", target)):
            text = "".join(f"{line}\n" for line in lines[:count])
            (tmp_path / f"{name}.{language}").write_text(text, encoding="utf-8")
    (tmp_path / "small.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "small.yaml"


def weights_of(folder):
    return read_arrays(folder / "model.weights.h5")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def metrics(folder):
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


@pytest.mark.no_tensorflow
def test_a_run_from_config_to_model_folder(config_file, capsys):
    scores = train(load_config(config_file))
    folder = config_file.parent / "runs" / "small"
    output = capsys.readouterr().out.splitlines()
    assert output[-1] == f"test BLEU = {scores[0].score:.1f} {scores[0].signature}"
    assert "exact matches: 0 of 3 (0.0%)" in output
    steps = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert steps == ["step-0000004", "step-0000006"]
    assert [line["step"] for line in metrics(folder)] == [2, 4, 6]
    assert "val_bleu" in metrics(folder)[1]
    # `averaged/` is the mean of the last two checkpoints, on disk and in use.
    parts = [weights_of(folder / "checkpoints" / step) for step in steps]
    for name, array in weights_of(folder / "averaged").items():
        np.testing.assert_allclose(array, (parts[0][name] + parts[1][name]) / 2, 1e-6)
    translator = kt.Translator.load(folder / "averaged")
    hypotheses = (folder / "test.hypotheses.txt").read_text().splitlines()
    sources = (config_file.parent / "val.en").read_text().splitlines()
    assert translator.translate(sources) == hypotheses
    assert kt.Translator.load(folder / "best").beam_size == 2
    assert "Test: BLEU" in (folder / "averaged" / "README.md").read_text()

    average(folder, 1, config_file.parent / "last")
    assert_equal(weights_of(config_file.parent / "last"), parts[1])
    with pytest.raises(InputError, match="has 2 checkpoints; --last must be between"):
        average(folder, 3, config_file.parent / "more")

    # Once more: it says that it is finished, and trains no step.
    train(load_config(config_file))
    assert "finished already" in capsys.readouterr().err
    assert len(metrics(folder)) == 3


def test_a_stopped_run_goes_on_to_the_same_weights(config_file, monkeypatch):
    train(load_config(config_file, ["output=whole"]))

    class Stop(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == 3:
                os.kill(os.getpid(), signal.SIGTERM)

    stopped = load_config(config_file, ["output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", Stop)
        with pytest.raises(running.Interrupted, match="SIGTERM at step 3") as error:
            train(stopped)
    assert error.value.exit_code == 143
    folder = config_file.parent
    assert (folder / "stopped" / "checkpoints" / "step-0000003").is_dir()
    train(stopped)
    assert_equal(
        weights_of(folder / "stopped" / "checkpoints" / "step-0000006"),
        weights_of(folder / "whole" / "checkpoints" / "step-0000006"),
    )


def test_another_config_is_refused_with_the_difference(config_file):
    train(load_config(config_file, ["training.steps=2"]))
    with pytest.raises(InputError, match=r"training.steps: 2 -> 6"):
        train(load_config(config_file))


def test_a_foreign_folder_is_refused(config_file):
    folder = config_file.parent / "letters"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="letters exists and is not a run folder"):
        train(load_config(config_file, ["output=letters"]))
    with pytest.raises(InputError, match="cannot write the run folder"):
        train(load_config(config_file, ["output=letters/letter.txt/run"]))
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_bad_corpora_are_refused(config_file):
    folder = config_file.parent
    (folder / "train.de").write_text("eine Zeile\n")
    with pytest.raises(InputError, match=r"train.en has 60 lines but .*train.de has 1"):
        train(load_config(config_file))
    (folder / "train.de").unlink()
    with pytest.raises(InputError, match=r"cannot read .*train.de"):
        train(load_config(config_file))


def test_overlong_and_empty_pairs_are_dropped_and_counted(config_file, capsys):
    folder = config_file.parent
    for language in ("en", "de"):
        with (folder / f"train.{language}").open("a") as file:
            file.write("\n" + "x" * 100_000 + "\n")
    train(load_config(config_file, ["training.steps=1"]))
    assert (
        "60 pairs kept, 2 dropped: 1 empty, 1 longer than 200 tokens"
        in capsys.readouterr().err
    )


def test_a_loss_that_is_no_number_stops_the_run(config_file, monkeypatch):
    class Broken(keras.optimizers.Optimizer):
        def __init__(self, *_):
            super().__init__(learning_rate=1.0)

        def update_step(self, gradient, variable, learning_rate):
            variable.assign(variable * float("nan"))

    monkeypatch.setattr(running, "adam", Broken)
    with pytest.raises(InputError, match="the loss is not a number since step"):
        train(load_config(config_file))
