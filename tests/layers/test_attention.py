"""Attention and multi-head attention against the NumPy reference."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import RelativeBuckets
from keras_transformer.layers import additive_attention
from keras_transformer.layers import masks
from keras_transformer.layers import scaled_dot_product_attention
from keras_transformer.layers.multi_head_attention import SCORINGS
from reference import numpy_layers
from reference.marks import all_on_one_backend
from reference.sizes import BATCH
from reference.sizes import BEAM_SIZE
from reference.sizes import HEAD_DIM
from reference.sizes import HIDDEN_DIM
from reference.sizes import NUM_HEADS
from reference.sizes import SOURCE_LENGTH
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import TARGET_LENGTH
from reference.sizes import VALUE_DIM
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read

pytestmark = pytest.mark.one_backend
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
QUERY = normal(TARGET_LENGTH, HEAD_DIM, seed=1)
KEY = normal(SOURCE_LENGTH, HEAD_DIM, seed=2)
VALUE = normal(SOURCE_LENGTH, VALUE_DIM, seed=3)
MASK = np.random.default_rng(4).random((TARGET_LENGTH, SOURCE_LENGTH)) < 0.5
MASK[:, 0] = True
TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=5)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=6)
SOURCE_MASK = np.arange(SOURCE_LENGTH) < np.array(SOURCE_LENGTHS)[:, None]


def tensors(*arrays):
    return [ops.convert_to_tensor(array) for array in arrays]


def bias_of(mask):
    return masks.attention_bias(ops.convert_to_tensor(mask))


def multi_head_attention(**arguments):
    return MultiHeadAttention(
        NUM_HEADS, HEAD_DIM, **{"value_dim": VALUE_DIM, "use_bias": True, **arguments}
    )


@pytest.mark.parametrize("mask", [None, MASK], ids=["unmasked", "masked"])
@pytest.mark.parametrize("scoring", SCORINGS)
def test_attention_is_the_formula(scoring, mask):
    bias = None if mask is None else bias_of(mask)
    vector = normal(HEAD_DIM, seed=7)
    if scoring == "additive":
        found = additive_attention(
            *tensors(QUERY, KEY, VALUE), ops.convert_to_tensor(vector), bias
        )
    else:
        scale = 1.0 if scoring == "dot_product" else None
        found = scaled_dot_product_attention(*tensors(QUERY, KEY, VALUE), bias, scale)
    expected = numpy_layers.attention(QUERY, KEY, VALUE, mask, scoring, vector)
    for got, wanted in zip(found, expected, strict=True):
        np.testing.assert_allclose(numpy(got), wanted, **CLOSE)
    if mask is not None:
        assert (numpy(found[1])[~mask] == 0).all()


@pytest.mark.each_backend
@pytest.mark.parametrize(
    "dtype", all_on_one_backend(["float32", "bfloat16", "float16"], but=["bfloat16"])
)
def test_a_fully_blocked_row_is_finite(dtype):
    blocked = MASK.copy()
    blocked[2] = False
    query, key, value = (
        ops.cast(tensor, dtype) for tensor in tensors(QUERY, KEY, VALUE)
    )
    output, weights = scaled_dot_product_attention(query, key, value, bias_of(blocked))
    assert np.isfinite(numpy(output)).all() and np.isfinite(numpy(weights)).all()
    others, _ = scaled_dot_product_attention(query, key, value, bias_of(MASK))
    rows = np.arange(TARGET_LENGTH) != 2
    np.testing.assert_array_equal(numpy(output)[rows], numpy(others)[rows])


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_softmax_is_float32_whatever_the_inputs_are(dtype):
    query, key, value = (
        ops.cast(tensor, dtype) for tensor in tensors(QUERY, KEY, VALUE)
    )
    output, weights = scaled_dot_product_attention(query, key, value)
    assert weights.dtype == ops.zeros((), "float32").dtype
    assert output.dtype == value.dtype
    np.testing.assert_allclose(numpy(weights).sum(axis=-1), 1.0, rtol=1e-6)


@pytest.mark.each_backend
def test_dropout_acts_on_the_weights_before_values():
    def first_half(weights):
        return weights * ops.convert_to_tensor(np.arange(SOURCE_LENGTH) < 5, "float32")

    found = scaled_dot_product_attention(
        *tensors(QUERY, KEY, VALUE), dropout=first_half
    )
    _, weights = numpy_layers.attention(QUERY, KEY, VALUE)
    np.testing.assert_allclose(numpy(found[1]), weights, **CLOSE)
    expected = weights[:, :5] @ VALUE[:5]
    np.testing.assert_allclose(numpy(found[0]), expected, **CLOSE)


@pytest.mark.parametrize(
    "arguments",
    [
        {},
        {"use_bias": False, "output_dim": 31},
        {"value_dim": None, "scoring": "dot_product"},
        {"scoring": "additive"},
    ],
    ids=str,
)
def test_multi_head_attention_is_the_formula(arguments):
    """Each sentence alone and unpadded gives what the padded batch gives."""
    layer = multi_head_attention(**arguments)
    layer.build(TARGET.shape, SOURCE.shape)
    weights = read(randomize(layer))
    output, attention_weights = layer(
        *tensors(TARGET, SOURCE),
        attention_mask=ops.convert_to_tensor(SOURCE_MASK[:, None, None]),
        return_attention_weights=True,
    )
    for row, length in enumerate(SOURCE_LENGTHS):
        expected = numpy_layers.multi_head_attention(
            weights,
            NUM_HEADS,
            TARGET[row],
            SOURCE[row, :length],
            scoring=arguments.get("scoring"),
        )
        np.testing.assert_allclose(numpy(output)[row], expected[0], **CLOSE)
        found = numpy(attention_weights)[row]
        np.testing.assert_allclose(found[..., :length], expected[1], **CLOSE)
        assert (found[..., length:] == 0).all()


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize(
    "arguments",
    [{}, {"value_dim": None}, {"value_dim": None, "use_bias": False}],
    ids=str,
)
def test_self_attention_is_the_formula(arguments, training):
    """Also where its three projections are one product."""
    layer = multi_head_attention(**arguments)
    layer.build(TARGET.shape)
    weights = read(randomize(layer))
    output, attention_weights = layer(
        *tensors(TARGET), return_attention_weights=True, training=training
    )
    for row in range(BATCH):
        expected = numpy_layers.multi_head_attention(
            weights, NUM_HEADS, TARGET[row], TARGET[row]
        )
        np.testing.assert_allclose(numpy(output)[row], expected[0], **CLOSE)
        np.testing.assert_allclose(numpy(attention_weights)[row], expected[1], **CLOSE)


def test_keys_may_come_from_elsewhere_than_values():
    layer = multi_head_attention()
    layer.build(TARGET.shape, SOURCE.shape)
    weights = read(randomize(layer))
    keys = SOURCE[::-1].copy()
    output = layer(*tensors(TARGET, SOURCE, keys))
    expected, _ = numpy_layers.multi_head_attention(
        weights, NUM_HEADS, TARGET[0], SOURCE[0], keys[0]
    )
    np.testing.assert_allclose(numpy(output)[0], expected, **CLOSE)


def test_a_projected_memory_gives_the_same_as_the_memory():
    layer = multi_head_attention()
    target, source = tensors(TARGET, SOURCE)
    expected = numpy(layer(target, source))
    projected = layer.project_memory(source)
    assert tuple(projected[0].shape) == (BATCH, NUM_HEADS, SOURCE_LENGTH, HEAD_DIM)
    assert tuple(projected[1].shape) == (BATCH, NUM_HEADS, SOURCE_LENGTH, VALUE_DIM)
    np.testing.assert_allclose(
        numpy(layer(target, keys_values=projected)), expected, **CLOSE
    )


def test_step_by_step_with_a_cache_is_causal_self_attention():
    """Each of W hypotheses has inputs of its own."""
    layer = multi_head_attention()
    inputs = normal(BATCH, BEAM_SIZE, TARGET_LENGTH, HIDDEN_DIM, seed=8)
    whole = ops.convert_to_tensor(inputs.reshape(-1, *inputs.shape[2:]))
    expected = numpy(layer(whole, attention_mask=masks.causal_mask(TARGET_LENGTH)))
    expected = expected.reshape(inputs.shape)
    axes = (BATCH, BEAM_SIZE, NUM_HEADS, TARGET_LENGTH)
    cache = tuple(ops.zeros((*axes, size)) for size in (HEAD_DIM, VALUE_DIM))
    for position in range(TARGET_LENGTH):
        output, cache = layer(
            ops.convert_to_tensor(inputs[:, :, position]),
            attention_mask=masks.causal_mask(1, TARGET_LENGTH, position),
            cache=cache,
            position=ops.convert_to_tensor(position, dtype="int32"),
        )
        found = numpy(output)
        np.testing.assert_allclose(found, expected[:, :, position], **CLOSE)


def test_a_key_bias_changes_no_output():
    """Why the paper's presets have none: its gradient is exactly zero."""
    layer = multi_head_attention()
    before = numpy(layer(*tensors(TARGET, SOURCE)))
    layer.key_bias.assign(normal(NUM_HEADS * HEAD_DIM, seed=9))
    np.testing.assert_allclose(numpy(layer(*tensors(TARGET, SOURCE))), before, **CLOSE)


def test_an_unknown_scoring_is_refused():
    with pytest.raises(ValueError, match=r"scoring must be one of .*got 'cosine'"):
        MultiHeadAttention(NUM_HEADS, HEAD_DIM, scoring="cosine")


def test_a_single_key_gets_all_attention_without_a_warning():
    query, key = np.ones((2, 3, 5, 7), "float32"), np.full((2, 3, 1, 7), 2.0, "float32")
    output, weights = scaled_dot_product_attention(
        ops.convert_to_tensor(query), ops.convert_to_tensor(key), ops.array(key)
    )
    assert (ops.convert_to_numpy(weights) == np.ones((2, 3, 5, 1))).all()
    assert (ops.convert_to_numpy(output) == 2.0).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": 0}, "num_heads must be at least 1, got 0"),
        ({"head_dim": 0}, "head_dim must be at least 1, got 0"),
        (
            {"positional_encoding": RelativeBuckets(2)},
            "the positional_encoding has 2 heads, but the attention 4",
        ),
    ],
)
def test_sizes_that_cannot_be_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        MultiHeadAttention(**{"num_heads": 4, "head_dim": 2, **arguments})


def test_a_window_of_another_sequence_is_refused_while_the_model_is_put_together():
    query, memory = keras.Input((None, 8)), keras.Input((None, 8))
    with pytest.raises(ValueError, match="a window works in self-attention alone"):
        MultiHeadAttention(2, 4, window=2)(query, memory)


def test_layers_that_share_their_positions_share_them_in_a_file(tmp_path):
    buckets = RelativeBuckets(2)
    inputs = hidden = keras.Input((None, 8))
    for _ in range(2):
        hidden = MultiHeadAttention(2, 4, positional_encoding=buckets)(hidden)
    model = keras.Model(inputs, hidden)
    buckets.embeddings.assign(keras.random.normal(buckets.embeddings.shape, seed=1))
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert len(loaded.weights) == len(model.weights) == 9
    sequence = keras.random.normal((1, 5, 8), seed=2)
    np.testing.assert_allclose(
        keras.ops.convert_to_numpy(loaded(sequence)),
        keras.ops.convert_to_numpy(model(sequence)),
        atol=1e-6,
    )
