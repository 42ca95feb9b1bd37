"""The embedding matrix, read both ways."""

import math

import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import TokenEmbedding
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import TARGET_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read
from reference.weights import targets

HIDDEN = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM)


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("use_bias", [True, False])
def test_one_matrix_gives_vectors_and_logits(scale, use_bias):
    layer = TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM, scale, use_bias)
    layer.build()
    weights = read(randomize(layer))
    matrix = weights["embeddings"]
    factor = math.sqrt(HIDDEN_DIM) if scale else 1.0
    vectors = numpy(layer(ops.convert_to_tensor(targets())))
    np.testing.assert_allclose(vectors, matrix[targets()] * factor, rtol=1e-6)
    logits = numpy(layer(ops.convert_to_tensor(HIDDEN), reverse=True))
    expected = HIDDEN @ matrix.T + weights.get("bias", 0.0)
    np.testing.assert_allclose(logits, expected, rtol=1e-5, atol=1e-5)


def test_logits_are_float32_and_their_bias_is_not_rounded():
    layer = TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM, use_bias=True, dtype="bfloat16")
    layer.build()
    hidden = ops.zeros((BATCH, TARGET_LENGTH, HIDDEN_DIM), dtype="bfloat16")
    logits = layer(hidden, reverse=True)
    assert numpy(logits).dtype == "float32"

    layer = TokenEmbedding(
        VOCABULARY_SIZE, HIDDEN_DIM, use_bias=True, dtype="mixed_bfloat16"
    )
    layer.build()
    bias = normal(VOCABULARY_SIZE)
    layer.bias.assign(bias)
    logits = numpy(layer(hidden, reverse=True))
    np.testing.assert_array_equal(logits[0, 0], bias)
