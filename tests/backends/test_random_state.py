"""What is drawn from beside Keras' seed generators: kept, and given back."""

import numpy as np

from keras_transformer import backends


def test_a_state_comes_back():
    state = backends.random_state()
    assert state.dtype == np.uint8
    backends.restore_random_state(state)
    np.testing.assert_array_equal(backends.random_state(), state)


def test_a_checkpoint_of_another_backend_has_none():
    state = backends.random_state()
    backends.restore_random_state(np.zeros((0,), np.uint8))
    np.testing.assert_array_equal(backends.random_state(), state)
