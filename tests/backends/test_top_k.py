import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends


def stable_top_k(scores, k):
    indices = np.argsort(-scores, axis=-1, kind="stable")[..., :k]
    return np.take_along_axis(scores, indices, axis=-1), indices


class Weightless:
    variables = ()


def check(scores, k, dtype="float32", compiled=False):
    def top_k(scores, *, k):
        return backends.top_k(scores, k)

    run = backends.compile(top_k, Weightless) if compiled else top_k
    values, indices = run(ops.convert_to_tensor(scores, dtype), k=k)
    assert keras.backend.standardize_dtype(values.dtype) == dtype
    assert keras.backend.standardize_dtype(indices.dtype) == "int32"
    expected_values, expected_indices = stable_top_k(scores, k)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(ops.cast(values, "float32")), expected_values
    )
    np.testing.assert_array_equal(ops.convert_to_numpy(indices), expected_indices)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize("size", [4, 15, 64, 1001, 1600])
def test_ties_come_in_order_of_the_index(size, dtype, compiled):
    # Integers up to 2^7 are exact in bfloat16.
    rng = np.random.default_rng(size)
    for different in (1, 2, 3, 30) if not compiled else (2,):
        scores = rng.integers(-different, 0, (7, 3, size)).astype("float32")
        for k in {1, 2, min(8, size), min(size, 60) - 1, min(size, 60)}:
            check(scores, k, dtype, compiled)


@pytest.mark.parametrize("size", [40, 1601])
def test_a_tie_at_the_cut_goes_to_the_lower_index(size):
    rng = np.random.default_rng(0)
    row = np.arange(40.0 - size, 40.0, dtype="float32")
    scores = rng.permuted(row[None].repeat(320, 0), axis=1)
    scores[(scores > 30) & (scores < 35)] = 33.0
    check(scores, 7)


def test_without_ties():
    scores = np.random.default_rng(0).normal(size=(5, 300)).astype("float32")
    check(scores, 8)


@pytest.mark.parametrize("size", [20, 900])
def test_what_is_impossible_comes_last(size):
    scores = np.full((3, size), -np.inf, "float32")
    scores[:, 11] = -2.0
    scores[:, 5] = -3.0
    scores[:, 14] = -2.0
    values, indices = backends.top_k(ops.convert_to_tensor(scores), 6)
    assert ops.convert_to_numpy(indices)[:, :3].tolist() == [[11, 14, 5]] * 3
    assert np.isneginf(ops.convert_to_numpy(values)[:, 3:]).all()


@pytest.mark.skipif(keras.backend.backend() != "torch", reason="PyTorch on a GPU")
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16"])
def test_keys_of_scores_and_places_give_the_same(dtype):
    """What GPUs sort, since it needs no look at the values."""
    from keras_transformer.backends import torch as backend

    rng = np.random.default_rng(0)
    for scores in (
        rng.integers(-3, 4, (5, 3, 130)).astype("float32"),
        rng.normal(size=(4, 700)).astype("float32"),
        np.where(rng.random((6, 50)) < 0.5, -np.inf, 1.0).astype("float32"),
        np.where(rng.random((6, 50)) < 0.5, -0.0, 0.0).astype("float32"),
    ):
        tensor = ops.convert_to_tensor(scores, dtype)
        values, indices = backend._top_k_of_keys(tensor, 9)
        _, expected = stable_top_k(ops.convert_to_numpy(tensor.float()), 9)
        np.testing.assert_array_equal(indices, expected)
        assert values.dtype == tensor.dtype
        assert values.equal(tensor.gather(-1, indices.long()))
