"""Memory hops and the sentences they look through, against the paper's formulas."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import MemoryHop
from keras_transformer.layers import SentenceEmbedding
from reference import autodiff
from reference import numpy_layers
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import SOURCE_LENGTH
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read
from reference.weights import stories

QUERY = normal(BATCH, HIDDEN_DIM, seed=1) / 3
KEY = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=2) / 3
VALUE = normal(BATCH, SOURCE_LENGTH, HIDDEN_DIM, seed=3)


def embedding(**options):
    layer = SentenceEmbedding(VOCABULARY_SIZE, HIDDEN_DIM, **options)
    layer.build()
    return randomize(layer)


def sentences_of(story):
    """Without the padding: a list of lists of ids."""
    return [[int(i) for i in row if i] for row in story if row.any()]


def tensors(*arrays):
    return [ops.convert_to_tensor(array) for array in arrays]


# === Sentences ===


@pytest.mark.parametrize("position_encoding", [True, False])
@pytest.mark.parametrize("max_sentences", [SOURCE_LENGTH + 2, None])
def test_a_sentence_is_the_formula(position_encoding, max_sentences):
    layer = embedding(max_sentences=max_sentences, position_encoding=position_encoding)
    found = numpy(layer(ops.convert_to_tensor(stories())))
    for rows, story in zip(found, stories(), strict=True):
        told = sentences_of(story)
        expected = numpy_layers.sentences(read(layer), told, position_encoding)
        np.testing.assert_allclose(rows[: len(told)], expected, rtol=1e-4, atol=1e-5)
        assert np.abs(rows[len(told) :]).max(initial=0.0) == 0.0


@pytest.mark.one_backend
def test_padding_changes_nothing_wherever_it_stands():
    layer = embedding(max_sentences=SOURCE_LENGTH)
    story = stories()[1:2, : SOURCE_LENGTHS[1]]
    expected = numpy(layer(ops.convert_to_tensor(story)))
    padded = np.pad(story, ((0, 0), (2, 1), (1, 2)))
    found = numpy(layer(ops.convert_to_tensor(padded)))
    np.testing.assert_allclose(found[:, 2:-1], expected, atol=1e-6)


@pytest.mark.one_backend
def test_a_single_sentence_has_no_age():
    layer = embedding(max_sentences=SOURCE_LENGTH)
    question = ops.convert_to_tensor(stories()[:, 0])
    found = numpy(layer(question))
    for row, ids in zip(found, stories()[:, 0], strict=True):
        matrix = read(layer)["words/embeddings"]
        expected = numpy_layers.sentence(matrix, [i for i in ids if i])
        np.testing.assert_allclose(row, expected, rtol=1e-4, atol=1e-5)
    assert layer.compute_mask(question) is None


@pytest.mark.one_backend
def test_the_order_of_words_counts_with_position_encoding_alone():
    sentences = np.array([[5, 6, 7], [7, 6, 5]])
    for position_encoding in (True, False):
        layer = embedding(position_encoding=position_encoding)
        first, second = numpy(layer(ops.convert_to_tensor(sentences)))
        assert (np.abs(first - second).max() > 0.1) == position_encoding


@pytest.mark.one_backend
def test_backwards_it_gives_logits():
    layer = embedding()
    found = numpy(layer(ops.convert_to_tensor(QUERY), reverse=True))
    expected = QUERY @ read(layer)["words/embeddings"].T
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.one_backend
def test_stories_that_do_not_fit_are_refused_in_one_line():
    layer = embedding(max_sentences=4)
    with pytest.raises(ValueError, match=r"a story of 5 sentences .* max_sentences 4"):
        layer(ops.ones((2, 5, 3), dtype="int32"))
    with pytest.raises(ValueError, match=r"stories are \(batch, sentences, words\)"):
        layer(ops.ones((7,), dtype="int32"))
    with pytest.raises(ValueError, match=r"id 1\.5, which is not a whole number"):
        layer(ops.full((2, 3), 1.5))


# === Hops ===


@pytest.mark.parametrize("linear", [False, True])
def test_a_hop_is_the_formula(linear):
    mask = np.arange(SOURCE_LENGTH) < np.array(SOURCE_LENGTHS)[:, None]
    output, weights = MemoryHop(linear)(
        *tensors(QUERY, KEY, VALUE),
        key_mask=ops.convert_to_tensor(mask),
        return_attention_weights=True,
    )
    for row, length in enumerate(SOURCE_LENGTHS):
        expected = numpy_layers.memory_hop(
            QUERY[row], KEY[row, :length], VALUE[row, :length], linear
        )
        for found, its in zip((output, weights), expected, strict=True):
            values = numpy(found)[row]
            if found is weights:
                assert np.abs(values[length:]).max(initial=0.0) == 0.0
                values = values[:length]
            np.testing.assert_allclose(values, its, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("linear", [False, True])
def test_gradients_are_those_of_small_differences(linear):
    """Of the sum of outputs times fixed numbers, along one direction for each input."""
    factors = normal(BATCH, HIDDEN_DIM, seed=4)
    hop = MemoryHop(linear)

    def loss(*inputs):
        return ops.sum(hop(*inputs) * ops.convert_to_tensor(factors))

    def reference(*inputs):
        rows = zip(*inputs, strict=True)
        outputs = [numpy_layers.memory_hop(*row, linear)[0] for row in rows]
        return (np.array(outputs) * factors).sum()

    inputs = [QUERY, KEY, VALUE]
    _, gradients = autodiff.of_tensors(loss, inputs)
    for index, gradient in enumerate(gradients):
        direction = normal(*gradient.shape, seed=5 + index).astype("float64")
        ends = []
        for step in (1e-5, -1e-5):
            moved = [array.astype("float64") for array in inputs]
            moved[index] = moved[index] + step * direction
            ends.append(reference(*moved))
        expected = (ends[0] - ends[1]) / 2e-5
        np.testing.assert_allclose((gradient * direction).sum(), expected, rtol=1e-3)


@pytest.mark.one_backend
def test_the_mask_of_sentences_reaches_the_hop_by_itself():
    layer = embedding(max_sentences=SOURCE_LENGTH)
    key = layer(ops.convert_to_tensor(stories()))
    query = ops.convert_to_tensor(QUERY)
    _, weights = MemoryHop()(query, key, key, return_attention_weights=True)
    found = numpy(weights) > 0
    assert (found == stories().any(axis=-1)).all()


@pytest.mark.one_backend
def test_what_is_no_memory_is_refused_in_one_line():
    query, key, value = tensors(QUERY, KEY, VALUE)
    for inputs in ((key, key, value), (query, query, value), (query[:, 1:], key, key)):
        with pytest.raises(ValueError, match=r"must be \(batch, size\), \(batch, sen"):
            MemoryHop()(*inputs)
    with pytest.raises(ValueError, match="key_mask has the shape"):
        MemoryHop()(query, key, value, key_mask=ops.ones((BATCH, 2), dtype="bool"))
