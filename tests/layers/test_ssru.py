"""The SSRU and its recurrence: in parallel what a loop over positions gives."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import SSRU
from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers.linear_recurrence import linear_recurrence
from reference import autodiff
from reference import numpy_layers
from reference.marks import on_one_backend
from reference.sizes import BATCH
from reference.sizes import BEAM_SIZE
from reference.sizes import HIDDEN_DIM
from reference.sizes import SOURCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read

TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=5)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=6)


def built(**options):
    layer = SSRU(**options)
    layer.build((None, None, HIDDEN_DIM))
    return randomize(layer)


def test_it_is_the_formula():
    layer = built()
    found = numpy(layer(ops.convert_to_tensor(TARGET)))
    for row, expected in zip(found, TARGET, strict=True):
        expected = numpy_layers.ssru(read(layer), expected)
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-5)
    assert (found == 0).any() and (found > 0.1).any()


# === The recurrence ===


def in_a_loop(decay, inputs, weights):
    """States in float64, and the gradients of their sum with `weights`."""
    decay, inputs, weights = (a.astype("float64") for a in (decay, inputs, weights))
    states, state = np.zeros_like(inputs), np.zeros_like(inputs[:, 0])
    for position in range(inputs.shape[1]):
        state = decay[:, position] * state + inputs[:, position]
        states[:, position] = state
    of_decay, of_inputs = np.zeros_like(decay), np.zeros_like(inputs)
    gradient = np.zeros_like(state)
    for position in reversed(range(inputs.shape[1])):
        gradient = gradient + weights[:, position]
        of_inputs[:, position] = gradient
        if position:
            of_decay[:, position] = gradient * states[:, position - 1]
        gradient = decay[:, position] * gradient
    return states, of_decay, of_inputs


def recurrence_case(length):
    """Gates of all kinds: half open, all but closed or open, exactly 0 and 1."""
    generator = np.random.default_rng(length)
    scores = 6.0 * generator.normal(size=(2, length, 7))
    decay = 1.0 / (1.0 + np.exp(-scores))
    decay[..., 0], decay[..., 1], decay[:, ::2, 2] = 0.0, 1.0, 1e-30
    inputs = (1.0 - decay) * generator.normal(size=decay.shape)
    inputs[..., 1] = 0.01
    weights = generator.normal(size=decay.shape)
    return [array.astype("float32") for array in (decay, inputs, weights)]


def assert_close(found, expected):
    """Within rounding errors of float32 numbers of that size."""
    assert np.abs(found - expected).max() <= 2e-6 * (1.0 + np.abs(expected).max())


@pytest.mark.parametrize("length", [1, 2, 13, 1000])
def test_all_positions_at_once_are_one_after_the_other(length):
    """Values and gradients of long sequences, too, where products of gates are 0."""
    decay, inputs, weights = recurrence_case(length)

    def value(decay, inputs):
        states = linear_recurrence(decay, inputs)
        return ops.sum(states * ops.convert_to_tensor(weights)), states

    (_, states), gradients = autodiff.of_tensors(value, [decay, inputs])
    for found, expected in zip(
        (states, *gradients), in_a_loop(decay, inputs, weights), strict=True
    ):
        assert found.dtype == "float32"
        assert_close(found, expected)


@pytest.mark.one_backend("tensorflow")
@pytest.mark.parametrize("compiled", [False, True])
def test_a_length_that_is_known_when_the_program_runs_gives_the_same(compiled):
    import tensorflow as tf

    unknown = [tf.TensorSpec((None, None, 7))] * 3

    @tf.function(jit_compile=compiled, input_signature=unknown)
    def run(decay, inputs, weights):
        with tf.GradientTape() as tape:
            tape.watch([decay, inputs])
            states = linear_recurrence(decay, inputs)
            value = tf.reduce_sum(states * weights)
        return states, *tape.gradient(value, [decay, inputs])

    for length in (1, 13, 100):
        case = recurrence_case(length)
        for found, expected in zip(run(*case), in_a_loop(*case), strict=True):
            assert_close(numpy(found), expected)


# === With a cache ===


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
@pytest.mark.parametrize("rows", [(BATCH, BEAM_SIZE), on_one_backend((BATCH,))])
def test_step_by_step_it_is_the_whole_sequence(dtype, rows):
    """The state is float32 in any case: rounded, a slow gate would never move it."""
    width = BEAM_SIZE if len(rows) > 1 else 1
    layer = built(dtype=dtype)
    layer.forget_bias.assign(5.0 + layer.forget_bias)
    sequences = normal(BATCH * width, 40, HIDDEN_DIM, seed=2)
    inputs = ops.convert_to_tensor(sequences)
    whole = numpy(ops.cast(layer(inputs), "float32"))
    cache = layer.empty_cache(*rows)
    for position in range(sequences.shape[1]):
        step = sequences[:, position].reshape(BATCH, width, HIDDEN_DIM)
        output, cache = layer(ops.convert_to_tensor(step), cache=cache)
        assert tuple(cache.shape) == (*rows, HIDDEN_DIM)
        assert keras.backend.standardize_dtype(cache.dtype) == "float32"
        assert keras.backend.standardize_dtype(output.dtype) == layer.compute_dtype
        output = numpy(ops.cast(output, "float32")).reshape(-1, HIDDEN_DIM)
        close = 1e-5 if dtype == "float32" else 0.02
        np.testing.assert_allclose(output, whole[:, position], atol=close)


# === In a block ===


@pytest.mark.one_backend
def test_a_decoder_block_takes_it_in_place_of_self_attention():
    block = DecoderBlock(11, 2, parts={"self_attention": SSRU()})
    target, memory = map(ops.convert_to_tensor, (TARGET, SOURCE))
    output, cross = block(target, memory, return_attention_weights=True)
    assert tuple(output.shape) == TARGET.shape
    assert tuple(cross.shape) == (BATCH, 2, TARGET_LENGTH, SOURCE_LENGTH)
    again = DecoderBlock.from_config(block.get_config())
    assert type(again.self_attention) is SSRU
    changed = TARGET.copy()
    changed[:, 4:] += 1.0
    other = numpy(block(ops.convert_to_tensor(changed), memory, use_causal_mask=True))
    np.testing.assert_allclose(other[:, :4], numpy(output)[:, :4], atol=1e-6)
    assert np.abs(other[:, 4:] - numpy(output)[:, 4:]).max() > 0.01


@pytest.mark.one_backend
def test_what_an_ssru_cannot_do_is_refused_in_one_line():
    with pytest.raises(ValueError, match=r"^an SSRU is causal, .* Decoder"):
        EncoderBlock(11, 2, parts={"self_attention": SSRU()})
    block = DecoderBlock(11, 2, parts={"self_attention": SSRU()})
    allowed = np.ones((TARGET_LENGTH, TARGET_LENGTH), bool)
    for inputs in (
        (ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE)),
        (keras.KerasTensor(TARGET.shape), keras.KerasTensor(SOURCE.shape)),
    ):
        with pytest.raises(ValueError, match="leave out attention_mask and attention"):
            block(*inputs, attention_mask=ops.convert_to_tensor(allowed))
