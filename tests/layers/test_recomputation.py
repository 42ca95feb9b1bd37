"""Layers whose activations are computed again in the backward pass."""

import contextlib

import keras
import numpy as np
import pytest

from keras_transformer.layers import EncoderBlock
from keras_transformer.layers.dropout import Dropout
from reference.weights import numpy

on_pytorch = pytest.mark.skipif(
    keras.backend.backend() != "torch",
    reason="compiled, Keras' RematScope refuses layers that take `training` elsewhere",
)


def updates(make_layer, scope):
    """What two training steps make of the weights around two layers, as NumPy."""
    keras.utils.set_random_seed(0)
    with scope:
        inputs = keras.Input((5, 16))
        hidden = keras.layers.Dense(16)(inputs)
        for _ in range(2):
            hidden = make_layer()(hidden)
        model = keras.Model(inputs, keras.layers.Dense(3)(hidden))
        model.compile(keras.optimizers.SGD(0.1), "mse")
        generator = np.random.default_rng(0)
        x, y = (generator.normal(size=(4, 5, n)).astype("float32") for n in (16, 3))
        losses = [float(model.train_on_batch(x, y)) for _ in range(2)]
    return losses, [numpy(variable) for variable in model.trainable_variables]


@on_pytorch
@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: Dropout(0.5),
        lambda: EncoderBlock(num_heads=2, intermediate_dim=8, dropout=0.4),
    ],
    ids=["dropout", "a block and what is in it"],
)
def test_what_is_computed_again_drops_the_same(make_layer):
    losses, once = updates(make_layer, contextlib.nullcontext())
    again_losses, again = updates(make_layer, keras.RematScope(mode="full"))
    np.testing.assert_allclose(again_losses, losses, rtol=1e-6)
    for expected, found in zip(once, again, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-6)


@on_pytorch
def test_dropout_that_cannot_be_the_same_again_is_refused():
    import torch
    from torch.utils.checkpoint import checkpoint

    layer, x = Dropout(0.5), torch.ones(4, 8, requires_grad=True)

    def function(x):
        return layer(x, training=True)

    loss = checkpoint(function, x, use_reentrant=True).sum()
    with pytest.raises(RuntimeError, match="use_reentrant=False"):
        loss.backward()


@pytest.mark.parametrize("options", [{"noise_shape": (4, 1)}, {"seed": 1}])
def test_dropout_of_keras_is_refused_where_it_is_computed_again(options):
    with keras.RematScope(mode="larger_than", output_size_threshold=1000):
        layer = Dropout(0.5, **options)
        with pytest.raises(ValueError, match="RematScope"):
            layer.call(keras.ops.ones((4, 8)), training=True)


@pytest.mark.skipif(keras.backend.backend() != "tensorflow", reason="of TensorFlow")
def test_dropout_is_refused_where_tensorflow_would_draw_again():
    with keras.RematScope(mode="full"):
        layer = Dropout(0.5)
        with pytest.raises(ValueError, match="RematScope"):
            layer(keras.ops.ones((4, 8)), training=True)
        assert layer(keras.ops.ones((4, 8))).shape == (4, 8)
