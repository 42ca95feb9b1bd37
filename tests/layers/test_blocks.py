"""Feed-forward, residual and the two blocks against the NumPy reference."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import layers
from keras_transformer.config import TransformerConfig
from keras_transformer.layers import DecoderBlock
from keras_transformer.layers import EncoderBlock
from keras_transformer.layers import FeedForward
from keras_transformer.layers import Residual
from keras_transformer.layers import masks
from reference import numpy_layers
from reference import sizes
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import SOURCE_LENGTH
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import TARGET_LENGTH
from reference.sizes import TARGET_LENGTHS
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read

pytestmark = pytest.mark.one_backend
CLOSE = {"rtol": 1e-5, "atol": 1e-5}
TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=5)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=6)
SOURCE_MASK = np.arange(SOURCE_LENGTH) < np.array(SOURCE_LENGTHS)[:, None]
SHAPES = {
    "intermediate_dim": sizes.INTERMEDIATE_DIM,
    "num_heads": sizes.NUM_HEADS,
    "head_dim": sizes.HEAD_DIM,
    "value_dim": sizes.VALUE_DIM,
    "layer_norm_epsilon": 1e-3,
    "use_bias": True,
}
KINDS = [
    {"normalize_first": False, "activation": "relu"},
    {"normalize_first": True, "activation": "gelu"},
]


def config_of(kind):
    return TransformerConfig(
        vocabulary_size=sizes.VOCABULARY_SIZE, hidden_dim=HIDDEN_DIM, **SHAPES, **kind
    )


def encode(block, source, mask=SOURCE_MASK):
    mask = ops.convert_to_tensor(mask[:, None, None])
    return numpy(block(ops.convert_to_tensor(source), attention_mask=mask))


def decode(block, target, memory=SOURCE, mask=SOURCE_MASK):
    return numpy(
        block(
            ops.convert_to_tensor(target),
            ops.convert_to_tensor(memory),
            attention_mask=masks.causal_mask(target.shape[1]),
            cross_attention_mask=ops.convert_to_tensor(mask[:, None, None]),
        )
    )


@pytest.mark.parametrize("activation", ["relu", "gelu", "swish"])
def test_feed_forward_is_the_formula(activation):
    layer = FeedForward(sizes.INTERMEDIATE_DIM, activation)
    layer.build(TARGET.shape)
    weights = read(randomize(layer))
    found = numpy(layer(ops.convert_to_tensor(TARGET)))
    expected = numpy_layers.feed_forward(weights, TARGET, activation)
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.parametrize("normalize_first", [False, True])
def test_residual_normalizes_before_or_after(normalize_first):
    layer = Residual(normalize_first, epsilon=1e-3)
    stream = ops.convert_to_tensor(TARGET)
    layer.build(TARGET.shape)
    weights = read(randomize(layer))
    found = numpy(layer(stream, ops.square(layer.enter(stream))))
    config = TransformerConfig(
        vocabulary_size=53, normalize_first=normalize_first, layer_norm_epsilon=1e-3
    )
    expected = numpy_layers.residual(weights, config, TARGET, np.square)
    np.testing.assert_allclose(found, expected, **CLOSE)


@pytest.mark.each_backend
def test_normalization_is_float32_under_float16():
    """Squares of this stream are beyond the range of float16."""
    layer = Residual(dtype="float16")
    stream = ops.convert_to_tensor(TARGET * 2_000, dtype="float16")
    found = numpy(layer(stream, ops.zeros_like(stream)))
    weights = {"gamma": 1.0, "beta": 0.0}
    expected = numpy_layers.layer_norm(weights, TARGET, 0.0)
    np.testing.assert_allclose(found.astype("float32"), expected, atol=5e-3)


@pytest.mark.parametrize("kind", KINDS, ids=["post-norm", "pre-norm"])
def test_encoder_block_is_the_formula(kind):
    block = EncoderBlock(**SHAPES, **kind)
    block.build(SOURCE.shape)
    weights = read(randomize(block))
    found = encode(block, SOURCE)
    for row, length in enumerate(SOURCE_LENGTHS):
        expected = numpy_layers.encoder_block(
            weights, config_of(kind), SOURCE[row, :length]
        )
        np.testing.assert_allclose(found[row, :length], expected, **CLOSE)


@pytest.mark.parametrize("kind", KINDS, ids=["post-norm", "pre-norm"])
def test_decoder_block_is_the_formula(kind):
    block = DecoderBlock(**SHAPES, **kind)
    block.build(TARGET.shape, SOURCE.shape)
    weights = read(randomize(block))
    found = decode(block, TARGET)
    for row, (length, source_length) in enumerate(
        zip(TARGET_LENGTHS, SOURCE_LENGTHS, strict=True)
    ):
        expected = numpy_layers.decoder_block(
            weights,
            config_of(kind),
            TARGET[row, :length],
            SOURCE[row, :source_length],
            numpy_layers.causal_mask(length),
        )
        np.testing.assert_allclose(found[row, :length], expected, **CLOSE)


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_a_later_position_changes_no_earlier_output(dtype):
    block = DecoderBlock(**SHAPES, dtype=dtype)
    before = decode(block, TARGET)
    for position in (2, TARGET_LENGTH - 1):
        changed = TARGET.copy()
        changed[:, position:] += 3.0
        after = decode(block, changed)
        np.testing.assert_array_equal(after[:, :position], before[:, :position])
        assert (after[:, position] != before[:, position]).any()


@pytest.mark.parametrize("dtype", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_what_padding_holds_changes_no_output(dtype):
    changed = np.where(SOURCE_MASK[..., None], SOURCE, 7.0 + SOURCE)
    encoder = EncoderBlock(**SHAPES, dtype=dtype)
    before, after = encode(encoder, SOURCE), encode(encoder, changed)
    np.testing.assert_array_equal(after[SOURCE_MASK], before[SOURCE_MASK])
    decoder = DecoderBlock(**SHAPES, dtype=dtype)
    before, after = decode(decoder, TARGET), decode(decoder, TARGET, changed)
    np.testing.assert_array_equal(after, before)


def test_more_padding_changes_no_output():
    padding = ((0, 0), (0, 6), (0, 0))
    longer, mask = np.pad(SOURCE, padding), np.pad(SOURCE_MASK, padding[:2])
    encoder = EncoderBlock(**SHAPES)
    before, after = encode(encoder, SOURCE), encode(encoder, longer, mask)
    np.testing.assert_allclose(
        after[:, :SOURCE_LENGTH][SOURCE_MASK], before[SOURCE_MASK], **CLOSE
    )
    decoder = DecoderBlock(**SHAPES)
    before, after = decode(decoder, TARGET), decode(decoder, TARGET, longer, mask)
    np.testing.assert_allclose(after, before, **CLOSE)


def test_blocks_give_their_attention_weights():
    target, source = ops.convert_to_tensor(TARGET), ops.convert_to_tensor(SOURCE)
    encoder, decoder = EncoderBlock(**SHAPES), DecoderBlock(**SHAPES)
    _, weights = encoder(source, return_attention_weights=True)
    heads = (BATCH, sizes.NUM_HEADS)
    assert tuple(weights.shape) == (*heads, SOURCE_LENGTH, SOURCE_LENGTH)
    _, self_weights, cross_weights = decoder(
        target,
        source,
        attention_mask=masks.causal_mask(TARGET_LENGTH),
        return_attention_weights=True,
    )
    assert tuple(self_weights.shape) == (*heads, TARGET_LENGTH, TARGET_LENGTH)
    assert tuple(cross_weights.shape) == (*heads, TARGET_LENGTH, SOURCE_LENGTH)
    for tensor in (weights, self_weights, cross_weights):
        np.testing.assert_allclose(numpy(tensor).sum(axis=-1), 1.0, rtol=1e-5)
    later = np.triu_indices(TARGET_LENGTH, k=1)
    assert (numpy(self_weights)[..., later[0], later[1]] == 0).all()


def test_heads_that_do_not_divide_the_input_are_refused():
    block = EncoderBlock(sizes.INTERMEDIATE_DIM, num_heads=3)
    with pytest.raises(ValueError, match=r"3 does not divide .* 34 .*give head_dim"):
        block.build(SOURCE.shape)


def test_a_convolution_that_sees_later_positions_takes_no_cache():
    layer = layers.GatedConvolution(3, causal=False)
    layer(ops.zeros((1, 4, 8)))
    with pytest.raises(ValueError, match=r"is not causal.* takes no cache"):
        layer(ops.zeros((1, 1, 8)), cache=ops.zeros((1, 1, 2, 8)))


def test_a_residual_normalizes_first_wherever_it_is_called():
    """Eagerly, and twice in a functional model, whose operations have one name each."""
    stream = ops.convert_to_tensor(SOURCE)
    residuals = [Residual(normalize_first=True, name=f"residual_{n}") for n in "ab"]
    hidden = inputs = keras.Input(SOURCE.shape[1:])
    for residual in residuals:
        update = 2.0 * residual.enter(hidden)
        hidden = residual(hidden, update)
    found = numpy(keras.Model(inputs, hidden)(stream))
    for residual in residuals:
        assert len(residual.weights) == 2
        stream = residual(stream, 2.0 * residual.enter(stream))
    np.testing.assert_allclose(found, numpy(stream), **CLOSE)
    fresh, stream = Residual(normalize_first=True), ops.convert_to_tensor(SOURCE)
    np.testing.assert_allclose(
        numpy(fresh(stream, fresh.enter(stream))),
        SOURCE + numpy_layers.layer_norm({"gamma": 1.0, "beta": 0.0}, SOURCE, 1e-6),
        **CLOSE,
    )


def test_blocks_may_share_a_part():
    """As in ALBERT; or have one that was called before."""
    attention = layers.MultiHeadAttention(2, 4)
    feed_forward = FeedForward(7)
    feed_forward(SOURCE)
    parts = {"self_attention": attention, "feed_forward": feed_forward}
    first, second = (EncoderBlock(parts=parts) for _ in range(2))
    weights = feed_forward.get_weights()
    found = numpy(second(first(SOURCE)))
    assert np.isfinite(found).all()
    np.testing.assert_array_equal(feed_forward.get_weights()[0], weights[0])
    assert first.self_attention is second.self_attention
    model = keras.Sequential([keras.Input(SOURCE.shape[1:]), first, second])
    shared = len(attention.weights) + len(feed_forward.weights)
    assert len(model.weights) == shared + 2 * 2 * 2  # and four normalizations


def test_arguments_need_no_name_in_a_functional_model():
    target, memory = keras.Input(TARGET.shape[1:]), keras.Input(SOURCE.shape[1:])
    mask = keras.Input((TARGET_LENGTH, TARGET_LENGTH), dtype="bool")
    ones = np.tril(np.ones((BATCH, TARGET_LENGTH, TARGET_LENGTH), bool))
    attention = layers.MultiHeadAttention(2, 4)
    for layer, inputs, arrays in (
        (EncoderBlock(7, 2), (target, mask), (TARGET, ones)),
        (DecoderBlock(7, 2), (target, memory, mask), (TARGET, SOURCE, ones)),
        (attention, (target, target, target, mask), (TARGET, TARGET, TARGET, ones)),
    ):
        model = keras.Model(list(dict.fromkeys(inputs)), layer(*inputs))
        found = numpy(model([*{id(a): a for a in arrays}.values()]))
        tensors = [ops.convert_to_tensor(array) for array in arrays]
        np.testing.assert_allclose(found, numpy(layer(*tensors)), **CLOSE)
