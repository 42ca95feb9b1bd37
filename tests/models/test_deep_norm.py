"""DeepNorm: its factors, its initial values, and updates that stay small in depth."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.models.blocks import blocks
from reference.weights import normal

pytestmark = pytest.mark.one_backend


def config(encoder, decoder, **fields):
    return kt.TransformerConfig(
        vocabulary_size=50,
        hidden_dim=fields.pop("hidden_dim", 32),
        intermediate_dim=64,
        num_heads=2,
        num_encoder_layers=encoder,
        num_decoder_layers=decoder,
        **fields,
    )


def stack(side, encoder, decoder, **fields):
    """The blocks of one side, built."""
    made = config(encoder, decoder, **fields)
    position = kt.layers.RotaryPositionalEncoding()
    policy = keras.dtype_policies.get("float32")
    found = blocks(made, side, policy, position)
    shape = (None, None, made.hidden_dim)
    for block in found:
        block.build(*([shape] if side == "encoder" else [shape, shape]))
    return found


@pytest.mark.parametrize(
    "encoder, decoder, expected",
    [
        # α and β of the encoder, then of the decoder: figure 2 of the paper, by hand.
        (6, 6, (1.4179, 0.4970, 2.0598, 0.3433)),
        (30, 30, (2.3445, 0.3006, 3.0801, 0.2296)),
        (18, 6, (1.8661, 0.3776, 2.0598, 0.3433)),
    ],
)
def test_its_factors_are_those_of_the_paper(encoder, decoder, expected):
    made = config(encoder, decoder, deep_norm=True)
    factors = (*made.deep_norm_factors("encoder"), *made.deep_norm_factors("decoder"))
    np.testing.assert_allclose(factors, expected, rtol=1e-3)
    plain = config(encoder, decoder)
    assert plain.deep_norm_factors("encoder") == (1.0, 1.0)


@pytest.mark.parametrize("side", ["encoder", "decoder"])
def test_its_initial_values_and_its_sums_have_these_factors(side):
    made = config(6, 2, deep_norm=True)
    alpha, beta = made.deep_norm_factors(side)
    block = stack(side, 6, 2, deep_norm=True)[0]
    attentions = [block.self_attention]
    if side == "decoder":
        attentions.append(block.cross_attention)
    smaller = [block.feed_forward.inner_kernel, block.feed_forward.outer_kernel]
    usual = []
    for attention in attentions:
        smaller += [attention.value_kernel, attention.output_kernel]
        usual += [attention.query_kernel, attention.key_kernel]
    for kernels, gain in ((smaller, beta), (usual, 1.0)):
        for kernel in kernels:  # uniform between ± gain * sqrt(6 / (rows + columns))
            values = ops.convert_to_numpy(kernel)
            bound = gain * np.sqrt(6.0 / sum(values.shape))
            assert 0.95 * bound < np.abs(values).max() <= bound * (1 + 1e-6)
    stream, update = normal(2, 3, 32, seed=1), normal(2, 3, 32, seed=2)
    total = alpha * stream + update
    centred = total - total.mean(-1, keepdims=True)
    expected = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-6)
    found = ops.convert_to_numpy(block.self_attention_residual(stream, update))
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


def test_an_update_of_sixty_layers_stays_small():
    """What the paper proves: one step of all weights moves the output by a bounded sum.

    Every weight moves by the same small number, as in the first step of Adam; a plain
    post-norm stack of this depth has gone elsewhere by then.
    """
    inputs = ops.convert_to_tensor(normal(2, 5, 64, seed=3))

    def moved(deep_norm):
        keras.utils.set_random_seed(1)
        layers = stack("encoder", 60, 60, deep_norm=deep_norm, hidden_dim=64)

        def output():
            hidden = inputs
            for layer in layers:
                hidden = layer(hidden)
            return ops.convert_to_numpy(hidden)

        before = output()
        generator = np.random.default_rng(1)
        for layer in layers:
            for weight in layer.weights:
                signs = generator.choice([-1e-3, 1e-3], weight.shape)
                weight.assign_add(signs.astype("float32"))
        return np.sqrt(((output() - before) ** 2).mean())

    deep, plain = moved(True), moved(False)
    assert deep < 0.5 * plain
    assert deep < 0.5
