"""Initial values of weights: arguments of the layers, and as ever by default."""

import keras
import numpy as np
import pytest

from keras_transformer import layers

pytestmark = pytest.mark.one_backend
LAYERS = {
    "attention": (
        lambda **options: layers.MultiHeadAttention(2, 4, use_bias=True, **options),
        ("kernel", "bias"),
    ),
    "feed forward": (
        lambda **options: layers.FeedForward(8, gated=True, **options),
        ("kernel", "bias"),
    ),
    "convolution": (
        lambda **options: layers.GatedConvolution(3, **options),
        ("kernel", "bias"),
    ),
    "embedding": (
        lambda **options: layers.TokenEmbedding(11, 8, use_bias=True, **options),
        ("embeddings", "bias"),
    ),
    "positions": (
        lambda **options: layers.LearnedPositionalEmbedding(11, **options),
        ("embeddings",),
    ),
}


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("as_name", [True, False])
def test_initial_values_are_those_of_the_argument(name, as_name):
    make, kinds = LAYERS[name]
    given = {"kernel": "ones", "embeddings": "ones", "bias": "zeros"}
    if not as_name:
        constants = {"kernel": 2.0, "embeddings": 2.0, "bias": 3.0}
        given = {kind: keras.initializers.Constant(constants[kind]) for kind in kinds}
    layer = make(**{f"{kind}_initializer": given[kind] for kind in kinds})
    again = type(layer).from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    for built in (layer, again):
        built.build((2, 5, 8))
        for variable in built.weights:
            kind = "bias" if variable.name.endswith("bias") else kinds[0]
            expected = keras.initializers.get(given[kind])(variable.shape)
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(variable),
                keras.ops.convert_to_numpy(expected),
            )


def test_each_matrix_has_values_of_its_own():
    shared = keras.initializers.GlorotUniform()
    layer = layers.FeedForward(8, gated=True, kernel_initializer=shared)
    layer.build((2, 5, 8))
    inner, gate = layer.inner_kernel, layer.gate_kernel
    assert np.abs(keras.ops.convert_to_numpy(inner - gate)).max() > 0.1


@pytest.mark.parametrize("name", ["feed forward", "embedding", "positions"])
def test_there_is_no_initializer_of_another_name(name):
    make, kinds = LAYERS[name]
    with pytest.raises(ValueError, match="no initializer 'glorot'"):
        make(**{f"{kinds[0]}_initializer": "glorot"})


def test_a_seed_gives_the_initial_values_that_it_always_gave():
    """No initializer is made, and no seed drawn, but for each matrix as it is built."""
    glorot, normal = keras.initializers.GlorotUniform, keras.initializers.RandomNormal
    keras.utils.set_random_seed(7)
    made = [
        layers.FeedForward(4, gated=True),
        layers.GatedConvolution(3),
        layers.TokenEmbedding(11, 8),
        layers.LearnedPositionalEmbedding(11),
    ]
    for layer in made:
        layer.build((2, 5, 8))
    found = [v for layer in made for v in layer.weights if len(v.shape) > 1]
    keras.utils.set_random_seed(7)
    expected = [
        glorot()((8, 4)),
        glorot()((8, 4)),
        glorot()((4, 8)),
        glorot()((3, 8, 16)),
        normal(stddev=8**-0.5)((11, 8)),
        normal(stddev=8**-0.5)((11, 8)),
    ]
    for variable, values in zip(found, expected, strict=True):
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(variable), keras.ops.convert_to_numpy(values)
        )
