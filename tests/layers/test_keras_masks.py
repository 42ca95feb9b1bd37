"""Masks of Keras: what they block, as in `keras.layers`, and how they are passed on."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import layers
from keras_transformer.layers import masks
from reference.marks import on_one_backend
from reference.sizes import BATCH
from reference.sizes import HEAD_DIM
from reference.sizes import HIDDEN_DIM
from reference.sizes import INTERMEDIATE_DIM
from reference.sizes import NUM_HEADS
from reference.sizes import SOURCE_LENGTH
from reference.sizes import TARGET_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import numpy
from reference.weights import sources
from reference.weights import targets

TARGET_MASK, SOURCE_MASK = targets() != 0, sources() != 0
TARGET = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=1)
SOURCE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=2)


def attention_pair():
    """Keras' layer and ours, with the same weights."""
    kerass = keras.layers.MultiHeadAttention(NUM_HEADS, HEAD_DIM, use_bias=False)
    kerass.build(TARGET.shape, SOURCE.shape)
    ours = layers.MultiHeadAttention(NUM_HEADS, HEAD_DIM)
    ours.build(TARGET.shape, SOURCE.shape)
    for variable, weight in zip(ours.weights, kerass.get_weights(), strict=True):
        variable.assign(weight.reshape(variable.shape))
    return kerass, ours


def embedding():
    layer = keras.layers.Embedding(VOCABULARY_SIZE, HIDDEN_DIM, mask_zero=True)
    layer.build()
    layer.embeddings.assign(normal(VOCABULARY_SIZE, HIDDEN_DIM, seed=3))
    return layer


def tensors(**arguments):
    return {
        name: ops.convert_to_tensor(value) if isinstance(value, np.ndarray) else value
        for name, value in arguments.items()
    }


def close(found, expected):
    np.testing.assert_allclose(numpy(found), numpy(expected), atol=2e-6)


@pytest.mark.parametrize("causal", [on_one_backend(False), True])
def test_masks_of_embeddings_block_what_they_block_in_keras(causal):
    """At every position: also where the query is padding, or sees nothing."""
    kerass, ours = attention_pair()
    embed = embedding()
    target, source = embed(targets()), embed(sources())
    options = {"use_causal_mask": causal}
    close(ours(target, target, **options), kerass(target, target, **options))
    close(ours(target, **options), kerass(target, target, **options))
    close(ours(target, source, **options), kerass(target, source, **options))
    other = ops.convert_to_tensor(SOURCE)  # a value without a mask, a key with one
    close(
        ours(target, other, source, **options), kerass(target, other, source, **options)
    )
    mask = np.random.default_rng(4).random((BATCH, TARGET_LENGTH, SOURCE_LENGTH)) < 0.7
    mask[..., 0] = True
    options = tensors(attention_mask=mask, **options)
    close(ours(target, source, **options), kerass(target, source, **options))


@pytest.mark.one_backend
def test_masks_that_are_given_block_what_they_block_in_keras():
    kerass, ours = attention_pair()
    arguments = tensors(query=TARGET, value=SOURCE, key=SOURCE[::-1].copy())
    for given in (
        {"value_mask": SOURCE_MASK},
        {"key_mask": SOURCE_MASK},
        {"value_mask": SOURCE_MASK, "key_mask": SOURCE_MASK[::-1].copy()},
        {"use_causal_mask": True},
        {"value_mask": SOURCE_MASK.astype("int32")},
    ):
        options = tensors(**given)
        close(ours(**arguments, **options), kerass(**arguments, **options))
    # Keras ignores a query's mask that is no part of the tensor; only padding changes.
    found = ours(**arguments, **tensors(query_mask=TARGET_MASK))
    close(found[TARGET_MASK], kerass(**arguments)[TARGET_MASK])


@pytest.mark.parametrize("functional", [on_one_backend(False), True])
def test_the_mask_of_the_query_is_passed_on(functional):
    """From layer to layer of a model, up to one that takes it."""
    embed = embedding()
    chain = [
        layers.SinusoidalPositionalEncoding(),
        layers.LearnedPositionalEmbedding(29),
        layers.MultiHeadAttention(NUM_HEADS, HEAD_DIM),
        layers.FeedForward(INTERMEDIATE_DIM),
        layers.GatedConvolution(3),
        layers.EncoderBlock(INTERMEDIATE_DIM, NUM_HEADS),
        layers.EncoderBlock(INTERMEDIATE_DIM, NUM_HEADS, normalize_first=True),
    ]
    residual, decoder = layers.Residual(), layers.DecoderBlock(23, NUM_HEADS)
    output = layers.TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM)
    output.build()
    pooling = keras.layers.GlobalAveragePooling1D()  # of the tokens alone

    def run(ids):
        hidden = embed(ids)
        for layer in chain:
            hidden = layer(hidden)
        hidden = residual(hidden, hidden)
        hidden = decoder(hidden, embed(ids))
        return pooling(output(hidden, reverse=True))

    longer = np.pad(targets(), ((0, 0), (0, 3)))
    if functional:
        ids = keras.Input((None,), dtype="int32")
        run = keras.Model(ids, run(ids))
    close(run(ops.convert_to_tensor(longer)), run(ops.convert_to_tensor(targets())))


@pytest.mark.one_backend
def test_blocks_read_masks_that_are_attached_or_given():
    encoder = layers.EncoderBlock(INTERMEDIATE_DIM, NUM_HEADS)
    decoder = layers.DecoderBlock(INTERMEDIATE_DIM, NUM_HEADS, normalize_first=True)
    embed = embedding()
    target, source = embed(targets()), embed(sources())
    bare = {
        "target": ops.convert_to_tensor(numpy(target)),
        "source": ops.convert_to_tensor(numpy(source)),
    }
    padding = ops.convert_to_tensor(SOURCE_MASK[:, None, None])

    memory = encoder(source)
    expected = encoder(bare["source"], attention_mask=padding)
    close(memory[SOURCE_MASK], expected[SOURCE_MASK])
    given = encoder(bare["source"], source_mask=ops.convert_to_tensor(SOURCE_MASK))
    close(given, memory)
    future = masks.causal_mask(SOURCE_LENGTH)
    close(
        encoder(source, use_causal_mask=True)[SOURCE_MASK],
        encoder(source, attention_mask=future)[SOURCE_MASK],
    )

    found = decoder(target, memory, use_causal_mask=True)
    bare_memory = ops.convert_to_tensor(numpy(memory))
    expected = decoder(
        bare["target"],
        bare_memory,
        attention_mask=masks.causal_mask(TARGET_LENGTH),
        cross_attention_mask=padding,
    )
    close(found[TARGET_MASK], expected[TARGET_MASK])
    given = decoder(
        bare["target"],
        bare_memory,
        **tensors(target_mask=TARGET_MASK, memory_mask=SOURCE_MASK),
        use_causal_mask=True,
    )
    close(given, found)
    projected = decoder(
        bare["target"],
        decoder.project_memory(bare_memory),
        **tensors(target_mask=TARGET_MASK, memory_mask=SOURCE_MASK),
        use_causal_mask=True,
    )
    close(projected, found)


@pytest.mark.one_backend
def test_masks_of_half_the_precision_stay_masks():
    """Under each policy: the bias that they become is not rounded to infinity."""
    embed = embedding()
    for dtype in ("mixed_float16", "mixed_bfloat16"):
        attention = layers.MultiHeadAttention(NUM_HEADS, HEAD_DIM, dtype=dtype)
        bias = ops.zeros((1, TARGET_LENGTH, TARGET_LENGTH))
        for options in ({}, {"attention_bias": bias}):
            output, weights = attention(
                embed(targets()), return_attention_weights=True, **options
            )
            assert np.isfinite(numpy(output)).all()
            blocked = ~np.broadcast_to(TARGET_MASK[:, None, None], weights.shape)
            blocked &= TARGET_MASK[:, None, :, None]
            assert numpy(weights)[blocked].max() == 0.0


@pytest.mark.one_backend
def test_masks_that_cannot_be_meant_are_refused():
    attention = layers.MultiHeadAttention(NUM_HEADS, HEAD_DIM, name="attention")
    inputs = tensors(query=TARGET, value=SOURCE)
    for given, message in (
        ({"value_mask": TARGET_MASK}, r"value_mask has the shape \(5, 7\)"),
        ({"query_mask": SOURCE_MASK}, r"query_mask has the shape \(5, 11\)"),
        ({"value_mask": SOURCE_MASK[:, None]}, r"value_mask has the shape"),
        ({"value_mask": SOURCE_MASK.astype("float32")}, "value_mask is float32"),
    ):
        with pytest.raises(ValueError, match=message):
            attention(**inputs, **tensors(**given))
    query = keras.Input((TARGET_LENGTH, HIDDEN_DIM))
    with pytest.raises(ValueError, match="query_mask has the shape"):
        attention(query, query_mask=keras.Input((SOURCE_LENGTH,), dtype="bool"))
    cache = tuple(
        ops.zeros((BATCH, TARGET_LENGTH, NUM_HEADS, 9, HEAD_DIM)) for _ in "kv"
    )
    with pytest.raises(ValueError, match="with a cache"):
        attention(inputs["query"], cache=cache, position=0, use_causal_mask=True)


@pytest.mark.one_backend
def test_without_masks_nothing_is_added_to_the_scores():
    assert masks.with_keras_masks(None, (5, 2, 7, 11)) is None
    bias = ops.zeros((7, 11))
    assert masks.with_keras_masks(bias, (5, 2, 7, 11)) is bias


@pytest.mark.one_backend
@pytest.mark.parametrize("rank", [2, 3, 4])
@pytest.mark.parametrize(
    "layer",
    [
        layers.SinusoidalPositionalEncoding(offset=2),
        layers.LearnedPositionalEmbedding(29, offset=2),
    ],
    ids=["sinusoids", "learned"],
)
def test_positions_are_the_last_axis_but_one_of_any_rank(layer, rank):
    expected = numpy(layer(ops.zeros((1, TARGET_LENGTH, HIDDEN_DIM))))[0]
    shape = (3, 4, TARGET_LENGTH, HIDDEN_DIM)[-rank:]
    found = numpy(layer(ops.zeros(shape)))
    np.testing.assert_array_equal(found, np.broadcast_to(expected, shape))
    unknown = keras.Input((None,) * (rank - 2) + (HIDDEN_DIM,), batch_size=None)
    model = keras.Model(unknown, layer(unknown))
    close(model(ops.zeros(shape)), found)
    assert tuple(layer.compute_output_shape(shape)) == shape


@pytest.mark.one_backend
def test_no_warning_says_that_a_mask_is_lost():
    """The test itself: a layer that does not know masks does warn."""

    class Plain(keras.layers.Layer):
        def call(self, inputs):
            return inputs * 2

    with pytest.raises(UserWarning, match="destroy the mask"):
        Plain()(embedding()(targets()))
