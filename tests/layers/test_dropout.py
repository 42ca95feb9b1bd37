import keras
import numpy as np
import pytest

from keras_transformer.layers.dropout import Dropout


def dropped(rate, shape=(40, 50, 63), **options):
    """What is left of ones, as NumPy; 63 is no multiple of a word's bytes."""
    layer = Dropout(rate, **options)
    return keras.ops.convert_to_numpy(layer(keras.ops.ones(shape), training=True))


@pytest.mark.parametrize("rate", [0.1, 0.3, 0.5, 0.9])
def test_the_share_and_the_mean_are_those_of_the_rate(rate):
    left = dropped(rate)
    share = round(256 * rate) / 256
    error = 5 * np.sqrt(share * (1 - share) / left.size)  # five standard deviations
    assert abs((left == 0).mean() - share) < error
    np.testing.assert_allclose(left[left != 0], 1 / (1 - share), rtol=1e-6)
    assert abs(left.mean() - 1) < error / (1 - share)


def test_elements_are_dropped_independently():
    """Along each axis, neighbours are both dropped as often as chance has it."""
    zeros = dropped(0.5) == 0
    for axis in range(3):
        for distance in (1, 2, 4, 8):
            size = zeros.shape[axis]
            first = np.take(zeros, range(size - distance), axis)
            second = np.take(zeros, range(distance, size), axis)
            assert abs((first & second).mean() - 0.25) < 0.01


def test_each_call_draws_anew():
    layer, ones = Dropout(0.5), keras.ops.ones((8, 64))
    first, second = (
        keras.ops.convert_to_numpy(layer(ones, training=True)) for _ in range(2)
    )
    assert 0.3 < (first == second).mean() < 0.7


def test_the_random_seed_of_keras_decides():
    results = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        results.append(dropped(0.4, (7, 9)))
    np.testing.assert_array_equal(*results)


def test_small_rates_still_drop_and_extremes_are_exact():
    assert 0 < (dropped(0.0001) == 0).mean() < 0.01
    assert 0 < (dropped(0.9999) != 0).mean() < 0.01
    np.testing.assert_array_equal(dropped(0.0, (4, 5)), np.ones((4, 5)))
    np.testing.assert_array_equal(dropped(1.0, (4, 5)), np.zeros((4, 5)))


def test_gradients_pass_through_what_is_kept():
    """A model that is nothing but weights and dropout moves where it kept."""
    layer = keras.layers.EinsumDense("bi,i->bi", (64,), kernel_initializer="ones")
    model = keras.Sequential([layer, Dropout(0.5)])
    model.compile(optimizer=keras.optimizers.SGD(0.5), loss=lambda y, z: z)
    model.fit(np.ones((1, 64)), np.zeros((1, 64)), epochs=1, verbose=0)
    weights = keras.ops.convert_to_numpy(layer.kernel)
    moved = weights != 1
    assert 10 < moved.sum() < 54
    np.testing.assert_allclose(weights[moved], weights[moved][0])


def test_with_a_seed_it_is_the_dropout_of_keras():
    ones = keras.ops.ones((6, 7))
    ours = Dropout(0.5, seed=4)(ones, training=True)
    theirs = keras.layers.Dropout(0.5, seed=4)(ones, training=True)
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(ours), keras.ops.convert_to_numpy(theirs)
    )


def test_the_result_has_the_dtype_of_the_layer():
    layer = Dropout(0.5, dtype="bfloat16")
    result = layer(keras.ops.ones((4, 8), "bfloat16"), training=True)
    assert keras.backend.standardize_dtype(result.dtype) == "bfloat16"
    np.testing.assert_array_equal(Dropout(0.5)(np.ones((3, 4))), np.ones((3, 4)))


def test_an_infinite_element_is_dropped_like_others():
    result = Dropout(0.5)(keras.ops.full((8, 64), np.inf), training=True)
    assert set(np.unique(keras.ops.convert_to_numpy(result))) == {0.0, np.inf}


@pytest.mark.skipif(
    keras.backend.backend() != "torch", reason="PyTorch tells what a gradient keeps"
)
def test_the_gradient_keeps_a_byte_an_element():
    import torch

    kept = []
    inputs = torch.ones((8, 64), requires_grad=True)
    hooks = torch.autograd.graph.saved_tensors_hooks
    with hooks(lambda tensor: kept.append(tensor) or tensor, lambda tensor: tensor):
        Dropout(0.5)(inputs, training=True)
    assert [t.dtype for t in kept if t.shape == inputs.shape] == [torch.uint8]
