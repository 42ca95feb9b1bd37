"""Callbacks that plain `fit` can use."""

import signal

import keras
import numpy as np

from keras_transformer.training import AverageWeights
from keras_transformer.training.callbacks import StopOnSignal


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
