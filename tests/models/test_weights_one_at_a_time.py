"""Weights are written and read one at a time, without a second copy of a model."""

import weakref
from collections.abc import Mapping

import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.backends.host_memory import aligned_zeros
from keras_transformer.errors import InputError
from keras_transformer.models import weights
from reference.strange_folder import peak_of

pytestmark = pytest.mark.one_backend

SHAPE = (256, 256)


class Counted(Mapping):
    """Arrays that are made when they are asked for; `most` were there at once."""

    def __init__(self, broken=None):
        self.alive, self.most, self.broken = weakref.WeakSet(), 0, broken

    def __getitem__(self, name):
        if name == self.broken:
            raise InputError(f"{name} is broken")
        values = _Watched(np.full(SHAPE, int(name)))
        self.alive.add(values)
        self.most = max(self.most, len(self.alive))
        return values

    def __iter__(self):
        return map(str, range(20))

    def __len__(self):
        return 20


class _Watched:
    """An array that a weak set can hold."""

    def __init__(self, values):
        self._values = values.astype("float32")

    def __array__(self, dtype=None, copy=None):
        return self._values

    __hash__ = object.__hash__


def test_arrays_are_asked_for_when_they_are_written(tmp_path):
    arrays = Counted()
    weights.write_arrays(arrays, tmp_path / "w.h5")
    assert arrays.most == 1
    read = weights.read_arrays(tmp_path / "w.h5")
    assert all((read[name] == int(name)).all() for name in arrays)


def test_a_file_whose_array_cannot_be_made_is_not_there(tmp_path):
    with pytest.raises(InputError, match="7 is broken"):
        weights.write_arrays(Counted("7"), tmp_path / "w.h5")
    assert not list(tmp_path.iterdir())


def test_saving_and_loading_take_the_memory_of_one_weight(tmp_path):
    config = kt.TransformerConfig(
        vocabulary_size=300,
        hidden_dim=128,
        intermediate_dim=256,
        num_heads=2,
        num_encoder_layers=3,
        num_decoder_layers=3,
    )
    model = kt.Transformer(config)
    path, size = tmp_path / "w.h5", 4 * config.num_weights
    largest = max(4 * int(np.prod(weight.shape)) for weight in model.weights)
    assert 8 * largest < size
    weights.save_weights(model, path)  # what is loaded on first use, is
    assert peak_of(lambda: weights.save_weights(model, path)) < size / 2

    shapes = {name: tuple(w.shape) for name, w in weights.named_weights(model).items()}

    def read():
        with weights.stored_weights(path, shapes) as arrays:
            for name in arrays:
                assert arrays[name].shape == shapes[name]

    assert peak_of(read) < size / 2


def test_memory_that_is_not_written_is_aligned_and_empty():
    for shape in ((), (0, 3), (5, 7)):
        values = aligned_zeros(shape, "float32")
        assert values.shape == shape
        assert values.ctypes.data % 64 == 0 or not values.size
        assert not values.any()
