"""Callbacks of the user see one training, whatever calls of `fit` it is made of."""

import sys

import keras
import pytest
from small_run import metrics
from small_run import terminating_at

from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import run
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend

MODULE = """
import keras
class Named(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        print("begins", self.output)
def make(config):
    callback = Named()
    callback.output = config.output.name
    return [callback]
def wrong(config):
    return config.output.name
number = 7
"""


class Noting(keras.callbacks.Callback):
    """Notes what it is told; stops after an epoch where it is asked to."""

    def __init__(self, stop_at=None):
        super().__init__()
        self.calls = []
        self.stop_at = stop_at

    def on_train_begin(self, logs=None):
        self.calls.append("begin")

    def on_train_end(self, logs=None):
        self.calls.append("end")

    def on_epoch_begin(self, epoch, logs=None):
        self.calls.append(f"from {epoch}")

    def on_epoch_end(self, epoch, logs=None):
        self.calls.append((epoch, logs))
        self.model.stop_training = epoch == self.stop_at


class Counting(keras.callbacks.Callback):
    """Has the methods of batches, and so makes a training wait for each."""

    def __init__(self):
        super().__init__()
        self.batches = []

    def on_train_batch_end(self, batch, logs=None):
        self.batches.append((batch, type(logs["loss"])))


def test_epochs_are_the_lines_of_the_log(config_file):
    noting, counting = Noting(), Counting()
    train(load_config(config_file), callbacks=[noting, counting])
    assert counting.batches == [(0, float), (1, float)] * 3
    lines = metrics(config_file.parent / "runs" / "small")
    steps = [call for call in noting.calls if not isinstance(call, tuple)]
    assert steps == ["begin", "from 0", "from 2", "from 4", "end"]
    epochs = [call for call in noting.calls if isinstance(call, tuple)]
    assert [epoch for epoch, _ in epochs] == [line["step"] for line in lines]
    for (_, logs), line in zip(epochs, lines, strict=True):
        assert logs["loss"] == pytest.approx(line["loss"])
        assert logs.keys() == line.keys() - {"step"}
    assert "val_bleu" in epochs[1][1] and "val_bleu" not in epochs[0][1]


def test_one_that_stops_ends_the_training_and_the_run_goes_on_later(config_file):
    noting = Noting(stop_at=4)
    train(load_config(config_file), callbacks=[noting])
    folder = config_file.parent / "runs" / "small"
    assert [line["step"] for line in metrics(folder)] == [2, 4]
    assert (folder / "averaged" / "config.json").exists()
    again = Noting()
    train(load_config(config_file), callbacks=[again])
    assert again.calls[:2] == ["begin", "from 4"] and again.calls[-1] == "end"
    assert metrics(folder)[-1]["step"] == 6
    finished = Noting()
    train(load_config(config_file), callbacks=[finished])
    assert not finished.calls


def test_a_signal_ends_them_too(config_file, monkeypatch):
    noting = Noting()
    monkeypatch.setattr(run, "Progress", terminating_at(3))
    with pytest.raises(run.Interrupted):
        train(load_config(config_file), callbacks=[noting])
    assert noting.calls[-2:] == ["from 2", "end"]


def test_a_config_names_them(config_file, monkeypatch, capsys):
    monkeypatch.setattr(sys, "path", [*sys.path])
    config_file.with_name("named_callbacks.py").write_text(MODULE)
    key = "training.callbacks=[named_callbacks:{}]"
    for name, message in {
        "missing": r"named_callbacks.py\) has no missing; check the name",
        "number": "named_callbacks:number is int, not a function; name a function",
        "Named": "named_callbacks:Named is a class; name a function that takes the run",
        "wrong": "named_callbacks:wrong returned str, which is no keras.callbacks",
    }.items():
        config = load_config(config_file, [key.format(name), "output=runs/wrong"])
        with pytest.raises(InputError, match=message):
            train(config)
    train(load_config(config_file, [key.format("make")]))
    assert "begins small" in capsys.readouterr().out
    train(load_config(config_file, [key.format("make"), "training.steps=8"]))
    assert "begins small" in capsys.readouterr().out


@pytest.mark.no_backend
@pytest.mark.parametrize("name", ["make", "my.make", "my:", "../my:make", "m:a.b"])
def test_what_is_no_function_of_a_module_is_refused(name):
    with pytest.raises(InputError, match=r"expected module:factory.* got"):
        load_config(None, [f'training.callbacks=["{name}"]'])


def test_what_is_no_callback_is_refused_before_the_work(config_file):
    with pytest.raises(InputError, match="callbacks holds a type, which is no keras"):
        train(load_config(config_file), callbacks=[Noting])
    assert not config_file.with_name("runs").exists()
