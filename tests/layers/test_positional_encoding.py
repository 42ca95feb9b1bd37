"""Positions against the printed formula."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import LearnedPositionalEmbedding
from keras_transformer.layers import SinusoidalPositionalEncoding
from keras_transformer.layers import sinusoidal_table
from reference.numpy_layers import positional_encoding
from reference.sizes import BATCH
from reference.sizes import BEAM_SIZE
from reference.sizes import HIDDEN_DIM
from reference.sizes import MAX_SEQUENCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.weights import normal
from reference.weights import numpy

pytestmark = pytest.mark.one_backend
LAYOUTS = {
    "interleaved": "sinusoidal",
    "halves": "sinusoidal_halves",
    "halves_t2t": "sinusoidal_halves_t2t",
}
INPUTS = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM)


@pytest.mark.parametrize("offset", [0, 2])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_sinusoids_are_the_formula(layout, offset):
    expected = positional_encoding(2_003, HIDDEN_DIM, LAYOUTS[layout], offset)
    table = sinusoidal_table(2_003, HIDDEN_DIM, layout, offset)
    assert table.dtype == "float32"
    np.testing.assert_allclose(table, expected, atol=6e-8)  # rounded once
    layer = SinusoidalPositionalEncoding(layout, offset)
    found = numpy(layer(ops.convert_to_tensor(INPUTS)))
    np.testing.assert_allclose(found, INPUTS + expected[:TARGET_LENGTH], atol=1e-6)


@pytest.mark.parametrize("dtype", ["mixed_bfloat16", "bfloat16", "mixed_float16"])
def test_600_positions_stay_distinct_under_every_policy(dtype, monkeypatch):
    """The sum is taken in float32: nothing is rounded before it."""
    layer = SinusoidalPositionalEncoding(dtype=dtype)
    before_cast = []
    cast = ops.cast

    def watch(tensor, dtype):
        if dtype == layer.compute_dtype and dtype != "float32":
            before_cast.append(numpy(tensor))
        return cast(tensor, dtype)

    monkeypatch.setattr(ops, "cast", watch)
    layer(ops.zeros((2, 600, HIDDEN_DIM), dtype=layer.compute_dtype))
    (table,) = before_cast
    assert table.dtype == "float32"
    assert len(np.unique(table[0], axis=0)) == 600


@pytest.mark.one_backend("tensorflow")  # elsewhere lengths are known when it traces
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("offset", [0, 2])
def test_a_length_known_only_when_it_runs_gives_the_same(layout, offset):
    if keras.backend.backend() != "tensorflow":  # with EVERY_TEST
        pytest.skip("only TensorFlow has lengths that are not known when it traces")
    import tensorflow as tf

    layer = SinusoidalPositionalEncoding(layout, offset)
    program = tf.function(
        layer, input_signature=[tf.TensorSpec((None, None, HIDDEN_DIM), tf.float32)]
    )
    for length in (1, TARGET_LENGTH, 1_201):
        found = program(tf.zeros((BATCH, length, HIDDEN_DIM)))
        expected = sinusoidal_table(length, HIDDEN_DIM, layout, offset)
        np.testing.assert_allclose(found[1], expected, atol=6e-8)


@pytest.mark.parametrize(
    "layer",
    [
        SinusoidalPositionalEncoding("halves", offset=2),
        LearnedPositionalEmbedding(MAX_SEQUENCE_LENGTH, offset=2),
    ],
    ids=["sinusoids", "learned"],
)
def test_one_position_is_a_column_of_the_whole(layer):
    whole = numpy(layer(ops.convert_to_tensor(INPUTS)))
    for position in range(TARGET_LENGTH):
        inputs = np.repeat(INPUTS[:, position, None], BEAM_SIZE, axis=1)  # (B, W, D)
        found = layer(
            ops.convert_to_tensor(inputs),
            position=ops.convert_to_tensor(position, dtype="int32"),
            length=TARGET_LENGTH,
        )
        expected = np.repeat(whole[:, position, None], BEAM_SIZE, axis=1)
        np.testing.assert_array_equal(numpy(found), expected)


@pytest.mark.one_backend
def test_a_position_of_sinusoids_needs_the_length():
    position = ops.convert_to_tensor(5, dtype="int32")
    with pytest.raises(ValueError, match="a position needs the length"):
        SinusoidalPositionalEncoding()(ops.zeros((1, 1, 4)), position=position)


def test_a_table_that_is_changed_changes_no_layer():
    sinusoidal_table(TARGET_LENGTH, HIDDEN_DIM)[:] = 0.0
    found = SinusoidalPositionalEncoding()(ops.convert_to_tensor(INPUTS))
    expected = INPUTS + sinusoidal_table(TARGET_LENGTH, HIDDEN_DIM)
    np.testing.assert_allclose(numpy(found), expected, atol=1e-6)
    assert np.any(sinusoidal_table(TARGET_LENGTH, HIDDEN_DIM))


@pytest.mark.one_backend("tensorflow")
@pytest.mark.parametrize("jit_compile", [False, True])
def test_positions_beyond_the_table_are_not_a_number(jit_compile):
    """Where the length is not known before: a gather gives the last row, or fails."""
    if keras.backend.backend() != "tensorflow":  # with EVERY_TEST
        pytest.skip("only TensorFlow has lengths that are not known when it traces")
    import tensorflow as tf

    layer = LearnedPositionalEmbedding(9, offset=2)
    layer.build((None, None, HIDDEN_DIM))
    program = tf.function(
        layer,
        input_signature=[tf.TensorSpec((None, None, HIDDEN_DIM), tf.float32)],
        jit_compile=jit_compile,
    )
    np.testing.assert_array_equal(
        program(tf.zeros((1, 7, HIDDEN_DIM)))[0], numpy(layer.embeddings)[2:]
    )
    longer = np.isnan(program(tf.zeros((1, 9, HIDDEN_DIM)))[0]).all(axis=1)
    assert longer.tolist() == [False] * 7 + [True] * 2


def test_learned_positions_add_rows_of_the_table():
    layer = LearnedPositionalEmbedding(MAX_SEQUENCE_LENGTH, offset=2)
    found = numpy(layer(ops.convert_to_tensor(INPUTS)))
    table = numpy(layer.embeddings)
    np.testing.assert_allclose(found, INPUTS + table[2 : 2 + TARGET_LENGTH], atol=1e-6)


def test_learned_positions_are_added_in_float32():
    """Rounded once: as the sum, not before as a table."""
    layer = LearnedPositionalEmbedding(MAX_SEQUENCE_LENGTH, dtype="mixed_bfloat16")
    inputs = ops.cast(ops.convert_to_tensor(INPUTS), "bfloat16")
    found = numpy(layer(inputs))
    exact = numpy(inputs) + numpy(layer.embeddings)[:TARGET_LENGTH]
    expected = numpy(ops.cast(ops.convert_to_tensor(exact), "bfloat16"))
    np.testing.assert_array_equal(found, expected)


def test_a_sequence_longer_than_the_table_is_refused():
    layer = LearnedPositionalEmbedding(TARGET_LENGTH + 2, offset=2)
    layer(ops.convert_to_tensor(INPUTS))
    longer = ops.zeros((BATCH, TARGET_LENGTH + 1, HIDDEN_DIM))
    message = "8 positions is longer than the 7 that max_sequence_length 9 and offset 2"
    with pytest.raises(ValueError, match=message):
        layer(longer)
    with pytest.raises(ValueError, match=message):
        layer(longer[:, :1], position=ops.convert_to_tensor(7), length=8)


def test_an_odd_width_and_an_unknown_layout_are_refused():
    with pytest.raises(ValueError, match="must be even"):
        SinusoidalPositionalEncoding().build((BATCH, TARGET_LENGTH, 33))
    with pytest.raises(ValueError, match=r"one of interleaved, halves.*got 'spiral'"):
        SinusoidalPositionalEncoding("spiral")
