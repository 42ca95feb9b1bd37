"""What is drawn from beside Keras' seed generators: kept, and given back."""

import random
import sys

import keras
import numpy as np
import pytest

from keras_transformer import backends
from keras_transformer.backends.random_seed import set_random_seed


def test_a_state_comes_back():
    state = backends.random_state()
    assert state.dtype == np.uint8
    backends.restore_random_state(state)
    np.testing.assert_array_equal(backends.random_state(), state)


def test_a_checkpoint_of_another_backend_has_none():
    state = backends.random_state()
    backends.restore_random_state(np.zeros((0,), np.uint8))
    np.testing.assert_array_equal(backends.random_state(), state)


@pytest.mark.skipif(backends.name != "torch", reason="of PyTorch")
def test_a_state_holds_that_of_the_gpu_too(monkeypatch):
    import torch

    alone = backends.random_state()
    generator = [torch.arange(16, dtype=torch.uint8)]
    monkeypatch.setattr(torch.cuda, "get_rng_state", lambda: generator[0].clone())
    monkeypatch.setattr(
        torch.cuda, "set_rng_state", lambda state: generator.__setitem__(0, state)
    )
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    both = backends.random_state()
    generator[0] = torch.zeros(16, dtype=torch.uint8)
    backends.restore_random_state(alone)  # of a checkpoint without the GPU's
    assert not generator[0].any()
    backends.restore_random_state(both)
    assert generator[0].tolist() == list(range(16))
    monkeypatch.undo()
    backends.restore_random_state(both)  # where there is no GPU any more
    np.testing.assert_array_equal(backends.random_state(), alone)
    with pytest.raises((RuntimeError, ValueError)):
        backends.restore_random_state(alone[:-1])


def test_a_seed_is_that_of_keras_though_tensorflow_is_not_loaded(monkeypatch):
    """Keras itself loads it on every backend."""

    def drawn():
        generator = keras.random.SeedGenerator()
        uniform = keras.random.uniform((3,), seed=generator)
        values = keras.ops.convert_to_numpy(uniform).tolist()
        return random.random(), np.random.rand(), values

    keras.utils.set_random_seed(7)
    expected = drawn()
    if backends.name != "tensorflow":
        lazy = keras.src.utils.module_utils.tensorflow
        monkeypatch.setattr(lazy, "_available", None)
        monkeypatch.setattr(lazy, "initialize", lambda: pytest.fail("is loaded"))
        monkeypatch.delitem(sys.modules, "tensorflow", raising=False)
    set_random_seed(7)
    assert drawn() == expected
