"""Restricted self-attention in blocks: what the mask gives, at the cost of Table 1."""

import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import layers
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import multi_head_attention
from keras_transformer.layers.banded_attention import SMALLEST_BLOCK
from keras_transformer.layers.banded_attention import held_position
from reference import autodiff
from reference import numpy_layers
from reference.marks import on_one_backend
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read

LENGTH, WIDTH, WINDOW = 3 * SMALLEST_BLOCK + 5, 12, 3
STATES = normal(2, LENGTH, WIDTH, seed=1)
#: The second sentence is shorter.
IS_TOKEN = np.arange(LENGTH) < np.array([LENGTH, LENGTH - 9])[:, None]


@pytest.fixture
def lengths(monkeypatch):
    """The lengths that are computed in blocks."""
    lengths = []

    def noted(attend, queries, *arguments, **options):
        lengths.append(queries.shape[-2])
        return banded(attend, queries, *arguments, **options)

    banded = multi_head_attention.banded_attention
    monkeypatch.setattr(multi_head_attention, "banded_attention", noted)
    return lengths


def attention(window=WINDOW, **arguments):
    layer = MultiHeadAttention(4, 6, window=window, **arguments)
    layer.build((None, None, WIDTH))
    return randomize(layer)


def of_tokens(layer, causal=False, masked=False):
    """The output where there are tokens, in blocks or masked."""
    results = layer(
        ops.convert_to_tensor(STATES),
        attention_mask=ops.convert_to_tensor(IS_TOKEN[:, None, None]),
        use_causal_mask=causal,
        return_attention_weights=masked,
    )
    output = results[0] if masked else results
    return output * ops.convert_to_tensor(IS_TOKEN[..., None], "float32")


@pytest.mark.parametrize(
    "causal", [on_one_backend(False), True], ids=["both sides", "causal"]
)
@pytest.mark.parametrize(
    "arguments",
    [
        {"num_key_value_heads": 2, "value_dim": 5, "use_bias": True},
        *map(
            on_one_backend,
            (
                {"window": SMALLEST_BLOCK},
                {"attention_scoring": "additive"},
                {"positional_encoding": layers.RelativeBuckets(4, 8, 20)},
                {"positional_encoding": layers.RotaryPositionalEncoding()},
            ),
        ),
    ],
    ids=["grouped", "wide", "additive", "buckets", "rotary"],
)
def test_blocks_give_what_the_mask_gives(arguments, causal, lengths):
    """Values and gradients, with padding, where the length is no multiple of C."""
    layer = attention(**arguments)
    variables = layer.trainable_variables
    signs = ops.convert_to_tensor(np.sign(STATES))

    def both(masked):
        def loss(*values):
            mapping = list(zip(variables, values, strict=True))
            with keras.StatelessScope(state_mapping=mapping):
                output = of_tokens(layer, causal, masked)
            return ops.mean(output * signs), output

        arrays = [numpy(variable) for variable in variables]
        (_, output), gradients = autodiff.of_tensors(loss, arrays)
        return output, *gradients

    found = both(masked=False)
    assert lengths == [LENGTH]
    lengths.clear()
    expected = both(masked=True)
    assert not lengths
    for got, wanted in zip(found, expected, strict=True):
        scale = max(abs(wanted).max(), 1e-2)  # a key bias has a gradient of zero
        np.testing.assert_allclose(got, wanted, rtol=0, atol=1e-6 * scale)


@pytest.mark.one_backend
@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_blocks_give_the_formula(causal, lengths):
    layer = attention()
    found = numpy(of_tokens(layer, causal))
    assert lengths == [LENGTH]
    mask = numpy_layers.local_mask(LENGTH, WINDOW)
    if causal:
        mask &= numpy_layers.causal_mask(LENGTH)
    expected, _ = numpy_layers.multi_head_attention(
        read(layer), 4, STATES[0], mask=mask
    )
    np.testing.assert_allclose(found[0], expected, rtol=1e-5, atol=1e-5)


@pytest.mark.one_backend
@pytest.mark.parametrize("causal", [False, True], ids=["both sides", "causal"])
def test_a_token_outside_of_the_window_has_no_influence(causal, lengths):
    layer = attention()
    place = SMALLEST_BLOCK + 1
    changed = STATES.copy()
    changed[:, place] += 1.0
    before, after = (
        numpy(layer(ops.convert_to_tensor(states), use_causal_mask=causal))
        for states in (STATES, changed)
    )
    assert lengths == [LENGTH] * 2
    changes = np.abs(after - before).max(axis=(0, 2)) > 0
    first = place if causal else place - WINDOW
    np.testing.assert_array_equal(
        np.flatnonzero(changes), range(first, place + WINDOW + 1)
    )


@pytest.mark.one_backend
def test_dropout_is_of_the_weights_alone(lengths):
    """Nothing where the rate is 1; the mean of many draws is what nothing dropped."""
    states = ops.convert_to_tensor(STATES)
    np.testing.assert_array_equal(
        numpy(attention(dropout=1.0)(states, training=True)), 0.0
    )
    layer = attention(dropout=0.25)
    expected = numpy(layer(states))
    drawn = [numpy(layer(states, training=True)) for _ in range(100)]
    assert set(lengths) == {LENGTH}
    assert np.abs(drawn[0] - expected).max() > 0.1
    assert (
        np.abs(np.mean(drawn, axis=0) - expected).mean()
        < 0.1 * np.abs(drawn[0] - expected).mean() * 2
    )


@pytest.mark.one_backend
@pytest.mark.parametrize(
    "arguments",
    [
        {"attention_bias": np.zeros((LENGTH, LENGTH), "float32")},
        {"mask": IS_TOKEN},
        {"states": STATES[:, : SMALLEST_BLOCK + 2 * WINDOW]},
    ],
    ids=["row for each query", "Keras' mask", "short"],
)
def test_other_calls_take_the_mask(arguments, lengths):
    tensors = {name: ops.convert_to_tensor(array) for name, array in arguments.items()}
    states = tensors.pop("states", ops.convert_to_tensor(STATES))
    layer = attention()
    output, weights = layer(states, return_attention_weights=True, **tensors)
    np.testing.assert_array_equal(numpy(layer(states, **tensors)), numpy(output))
    assert not lengths
    far = ~numpy_layers.local_mask(states.shape[1], WINDOW)
    assert (numpy(weights)[0][:, far] == 0).all()


@pytest.mark.one_backend
def test_a_bias_that_may_know_positions_takes_the_mask(lengths):
    class Nearness(layers.RelativePositionalEncoding):
        def bias(self, query_positions, key_positions):
            distance = ops.expand_dims(query_positions, 1) - key_positions
            return -ops.cast(ops.abs(distance), "float32")[None]

    attention(positional_encoding=Nearness())(ops.convert_to_tensor(STATES))
    assert not lengths


@pytest.mark.one_backend("jax")
def test_no_array_of_a_training_step_grows_with_the_square():
    """The largest array of the program, forward and backward, of 512 and 1024."""
    import jax

    layer = attention(positional_encoding=layers.RelativeBuckets(4, 8, 20))
    variables = layer.trainable_variables

    def loss(values, states):
        mapping = list(zip(variables, values, strict=True))
        with keras.StatelessScope(state_mapping=mapping):
            return ops.sum(layer(states, use_causal_mask=True, training=True))

    def largest(length):
        states = np.ones((1, length, WIDTH), "float32")
        values = [variable.value for variable in variables]
        program = jax.jit(jax.grad(loss)).lower(values, states).as_text()
        shapes = re.findall(r"tensor<((?:\d+x)+)", program)
        return max(np.prod([int(n) for n in s.split("x") if n]) for s in shapes)

    assert largest(1024) <= 2 * largest(512) < 512**2


@pytest.mark.one_backend("tensorflow")
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "XLA"])
def test_lengths_known_only_when_it_runs_take_blocks_in_training(compiled, lengths):
    import tensorflow as tf

    layer = attention(positional_encoding=layers.RelativeBuckets(4, 8, 20))

    @tf.function(
        jit_compile=compiled,
        input_signature=[tf.TensorSpec((None, None, WIDTH), tf.float32)],
    )
    def run(states):
        return layer(states, training=True)

    for length in (LENGTH, 2):
        states = ops.convert_to_tensor(STATES[:, :length])
        expected, _ = layer(states, return_attention_weights=True)
        np.testing.assert_allclose(run(states), expected, rtol=0, atol=1e-6)
    assert lengths == [None]


@pytest.mark.one_backend
def test_a_ring_holds_the_newest_positions():
    found = [
        numpy(held_position(ops.arange(3), ops.convert_to_tensor(p), 3)).tolist()
        for p in (0, 1, 2, 3, 7)
    ]
    assert found == [[0, -2, -1], [0, 1, -1], [0, 1, 2], [3, 1, 2], [6, 7, 5]]


@pytest.mark.one_backend
def test_a_window_is_at_least_one_and_of_self_attention():
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        MultiHeadAttention(2, 8, window=0)
    states = ops.convert_to_tensor(STATES)
    with pytest.raises(ValueError, match="a window works in self-attention alone"):
        attention()(states, states)
