"""Callbacks that plain `fit` can use."""

import signal
import threading

import keras
import numpy as np
import pytest

from keras_transformer.errors import InputError
from keras_transformer.training import AverageWeights
from keras_transformer.training import callbacks as module
from keras_transformer.training.callbacks import CompileTime
from keras_transformer.training.callbacks import Progress
from keras_transformer.training.callbacks import StopOnNaN
from keras_transformer.training.callbacks import StopOnSignal
from keras_transformer.training.callbacks import UnreadLogs


class NoteWeights(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        self.epochs = []

    def on_epoch_end(self, epoch, logs=None):
        self.epochs.append(self.model.get_weights())


def test_the_model_ends_as_the_mean_of_its_last_epochs():
    model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
    model.compile(keras.optimizers.SGD(0.1), "mse")
    inputs = np.arange(12.0, dtype="float32").reshape(4, 3) / 12
    note = NoteWeights()
    callbacks = [note, AverageWeights(last=2)]
    model.fit(inputs, inputs[:, :2], epochs=4, verbose=0, callbacks=callbacks)
    last = zip(*note.epochs[-2:], strict=True)
    for actual, two in zip(model.get_weights(), last, strict=True):
        assert abs(two[0] - two[1]).max() > 1e-4
        np.testing.assert_allclose(actual, np.mean(two, axis=0), rtol=1e-6)


@pytest.mark.parametrize(("mode", "chosen"), [("max", (1, 3)), ("min", (0, 2))])
def test_the_best_epochs_are_averaged_the_earlier_of_equal_ones(mode, chosen):
    average = AverageWeights(best=2, monitor="val_bleu", mode=mode)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    average.set_model(model)
    average.on_train_begin()
    for epoch, bleu in enumerate([1.0, 5.0, 2.0, 4.0, 4.0]):
        model.set_weights([np.full((1, 1), epoch), np.zeros(1)])
        average.on_epoch_end(epoch, {"val_bleu": bleu})
    average.on_train_end()
    assert model.get_weights()[0] == np.mean(chosen)
    with pytest.raises(InputError, match=r"'val_bleu' is not in .* which have loss; "):
        average.on_epoch_end(5, {"loss": 1.0})
    with pytest.raises(InputError, match="mode must be 'min' or 'max', got 'auto'"):
        AverageWeights(mode="auto")


def test_a_signal_to_one_process_is_told_to_all():
    """Also where it comes after the last step, while a process validates."""
    told = []

    def agree(flag):
        told.append(flag)
        return True  # another process has it

    stop = StopOnSignal(agree)
    assert stop.signal is None
    assert stop.agreed() and stop.signal == signal.SIGTERM
    stop.signal = signal.SIGINT
    assert stop.agreed() and stop.signal == signal.SIGINT
    assert told == [False, True]
    assert not StopOnSignal().agreed()


def test_progress_goes_on_over_short_fits_and_counts_no_pause(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "say", lines.append)
    progress = Progress(step=10, steps=100, tokens_per_step=50.0)
    for _ in range(3):  # fits of two steps of five seconds
        progress.on_train_begin()
        for batch in range(2):
            now[0] += 5.0
            progress.on_train_batch_end(batch, {"loss": 2.5})
        progress.on_train_end()
        now[0] += 100.0
    assert lines == ["step 14/100  loss 2.5  10 tokens/s  0:07:10 left"]


class Reads:
    """A loss that notes when it is read."""

    def __init__(self, batch, value, read):
        self.batch, self.value, self.read = batch, value, read

    def __array__(self, *_, **__):
        self.read.append(self.batch)
        return np.asarray(self.value, "float32")


@pytest.mark.one_backend("jax")
def test_progress_counts_the_time_that_its_values_wait_for_the_steps(monkeypatch):
    """On JAX a step returns before its arrays are there."""
    now, lines = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "say", lines.append)

    class Computed:
        def __array__(self, *_, **__):
            now[0] += 10.0
            return np.asarray(2.5, "float32")

    progress = Progress(0, 10, tokens_per_step=50.0, interval=0.0)
    progress.on_train_begin()
    for batch in range(2):
        progress.on_train_batch_end(batch, {"loss": Computed()})
    assert lines == [
        "step 1/10  loss 2.5  5 tokens/s  0:01:30 left",
        "step 2/10  loss 2.5  5 tokens/s  0:01:20 left",
    ]


@pytest.mark.one_backend("jax")
def test_a_loss_is_read_when_later_steps_are_under_way():
    read = []
    watch = StopOnNaN(lag=2)
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
    callbacks = UnreadLogs([watch], model)
    for batch, value in enumerate([1.0, 2.0, np.nan, np.nan, np.nan]):
        callbacks.on_train_batch_begin(batch)
        callbacks.on_train_batch_end(batch, {"loss": Reads(batch, value, read)})
        assert read == list(range(batch - 1))
    assert watch.batch == 2 and model.stop_training
    watch = StopOnNaN(lag=9)
    watch.set_model(model)
    watch.on_train_batch_end(0, {"loss": np.float32("inf")})
    assert watch.batch is None
    watch.on_epoch_end(0)
    assert watch.batch == 0


@pytest.mark.no_backend
def test_the_time_of_compiling_is_said_when_the_last_shape_has_come(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    compiling = CompileTime(2, lines.append)
    for shapes, seconds in (([8, 8], [5.0, 1.0]), ([8, 4, 4], [1.0, 7.0, 1.0])):
        compiling.shape_of = shapes.__getitem__  # of one `fit`
        for batch, duration in enumerate(seconds):
            compiling.on_train_batch_begin(batch)
            now[0] += duration
            compiling.on_train_batch_end(batch)
        assert len(lines) == (len(set(shapes)) == 2)
    assert lines == ["the training step is compiled for all 2 shapes: 12.0 s"]


@pytest.mark.no_backend
def test_a_long_step_says_what_it_is_compiled_for_and_no_later_one(monkeypatch):
    class Timer(threading.Timer):
        """Comes at once, as if the step took long."""

        def start(self):
            self.function(*self.args)

    monkeypatch.setattr(module.threading, "Timer", Timer)
    lines = []
    for count in (2, 0):  # 0: a graph that serves several
        compiling = CompileTime(count, lines.append)
        arrays = [((64, 32), (64, 40)), ((64, 32), (64, 40)), ((8, 16), (8, 16)), None]
        compiling.shape_of = [*arrays, ((4, 8), (4, 8))].__getitem__
        for batch in range(5):
            compiling.on_train_batch_begin(batch)
            compiling.on_train_batch_end(batch)
        told = [line for line in lines if line.startswith("compiling for ")]
        assert told == [
            "compiling for batches of 64 sentences of 32 and 40 tokens ...",
            "compiling for batches of 8 sentences of 16 tokens ...",
        ]
        lines.clear()


def test_progress_leaves_out_the_steps_that_compiled(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(module, "say", lines.append)
    compiling = CompileTime(1, lambda text: None)
    compiling.shape_of = lambda batch: "the same"
    progress = Progress(0, 100, tokens_per_step=50.0, compiling=compiling)
    progress.on_train_begin()
    for batch, seconds in enumerate([60.0, 5.0, 5.0, 5.0, 5.0]):
        compiling.on_train_batch_begin(batch)
        now[0] += seconds
        compiling.on_train_batch_end(batch)
        progress.on_train_batch_end(batch, {"loss": 2.5})
    assert lines == [
        "step 1/100  loss 2.5",
        "step 5/100  loss 2.5  10 tokens/s  0:07:55 left",
    ]
