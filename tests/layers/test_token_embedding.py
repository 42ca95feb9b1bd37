"""The embedding matrix, read both ways."""

import math
import re

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.layers import AttentionBias
from keras_transformer.layers import TokenEmbedding
from reference import autodiff
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import TARGET_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read
from reference.weights import targets

pytestmark = pytest.mark.one_backend
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


# === Ids that come as floats ===

#: In bfloat16 they are 256 and 1000, in float16 2048 and 1001.
IDS = np.array([[257, 1001, 2049]])
POLICIES = ["float32", "mixed_bfloat16", "mixed_float16", "bfloat16"]


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("symbolic", [False, True], ids=["call", "model"])
def test_ids_that_come_as_floats_take_their_own_rows(policy, symbolic):
    layer = TokenEmbedding(3000, 2, scale=False, dtype=policy)
    layer.build()
    layer.embeddings.assign(normal(3000, 2))
    expected = numpy(layer(ops.convert_to_tensor(IDS)))
    found = layer
    if symbolic:
        inputs = keras.Input((3,), dtype="float32")
        found = keras.Model(inputs, layer(inputs))
    for dtype in ("float32", "float64"):
        ids = ops.convert_to_tensor(IDS.astype(dtype))
        np.testing.assert_array_equal(numpy(found(ids)), expected)
    np.testing.assert_array_equal(numpy(layer(IDS.astype("float32"))), expected)


@pytest.mark.parametrize("policy", POLICIES)
def test_padding_is_told_from_ids_that_come_as_floats(policy):
    layer = AttentionBias(pad_id=256, dtype=policy)
    found = numpy(layer(ops.convert_to_tensor(IDS.astype("float32"))))
    np.testing.assert_array_equal(found, np.zeros((1, 1, 1, 3)))


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
@pytest.mark.parametrize(
    "layer", [TokenEmbedding(9, 2), AttentionBias(0)], ids=["embedding", "bias"]
)
def test_ids_of_half_the_precision_are_refused(layer, dtype):
    for ids in (ops.ones((1, 2), dtype=dtype), keras.Input((2,), dtype=dtype)):
        with pytest.raises(ValueError, match=f"got ids as {dtype}.* as int32"):
            layer(ids)


def test_ids_that_are_not_whole_are_refused():
    with pytest.raises(ValueError, match=r"the id 1.5, which is not a whole number"):
        TokenEmbedding(9, 2)(ops.array([[1.0, 1.5]]))


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16"])
def test_logits_are_computed_in_the_compute_dtype(policy):
    layer = TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM, dtype=policy)
    layer.build()
    hidden, compute = ops.convert_to_tensor(HIDDEN), layer.compute_dtype
    expected = layer(ops.cast(hidden, compute), reverse=True)
    found = numpy(layer(hidden, reverse=True))
    np.testing.assert_array_equal(found, numpy(expected))
    matrix = ops.cast(layer.embeddings.value, compute)
    exact = ops.matmul(ops.cast(hidden, compute), ops.transpose(matrix))
    np.testing.assert_array_equal(found, numpy(ops.cast(exact, "float32")))


@pytest.fixture
def optimized():
    """A process whose compiled programs are optimized."""
    import jax

    before = jax.config.read("jax_disable_most_optimizations")
    jax.config.update("jax_disable_most_optimizations", False)
    yield
    jax.config.update("jax_disable_most_optimizations", before)


def program_of_eight_steps(rows, use_bias=False):
    """The text of the compiled program of a loop that computes logits."""
    import jax

    layer = TokenEmbedding(97, 64, use_bias=use_bias)
    layer.build((1, 1))
    state = [variable.value for variable in layer.trainable_variables]

    def search(state, hidden):
        def step(_, hidden):
            logits, _ = layer.stateless_call(state, [], hidden, reverse=True)
            return hidden + logits[..., :64]

        return jax.lax.fori_loop(0, 8, step, hidden)

    hidden = np.ones((rows, 1, 64), "float32")
    return jax.jit(search).lower(state, hidden).compile().as_text()


@pytest.mark.one_backend("jax")
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads a program of XLA")
def test_the_logits_of_one_row_copy_no_matrix(optimized):
    """As a sum with the bias would, at every step of a search."""
    program = program_of_eight_steps(rows=1, use_bias=True)
    assert "dot(" in program
    assert not re.findall(r"ROOT \S+ = f32\[64,97\]\S* copy\(.*", program)


@pytest.mark.one_backend("jax")
@pytest.mark.skipif(keras.backend.backend() != "jax", reason="reads a program of XLA")
@pytest.mark.parametrize(("rows", "copies"), [(1, 0), (4, 1)])
def test_few_rows_have_a_copy_of_the_matrix_that_is_made_before_the_loop(
    optimized, rows, copies
):
    from keras_transformer.backends import jax as backend

    token = backend._multiplies_by_eigen.set(True)
    try:
        program = program_of_eight_steps(rows)
    finally:
        backend._multiplies_by_eigen.reset(token)
    (state,) = re.findall(r"\S+ = (.*) while\(", program)
    assert state.count("f32[64,97]{1,0}") == copies


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16", "mixed_float16"])
def test_the_gradient_of_a_frequent_token_is_summed_in_float32(policy):
    """Of a sum of ones, bfloat16 would not get beyond 256."""
    layer = TokenEmbedding(5, 4, scale=False, dtype=policy)
    layer.build()
    ids = np.repeat(np.array([[1, 3]], "int32"), [3000, 7], axis=1)

    def total():
        return ops.sum(ops.cast(layer(ops.convert_to_tensor(ids)), "float32"))

    (gradient,) = autodiff.of_variables(total, layer.trainable_variables)
    np.testing.assert_array_equal(gradient[:, 0], [0, 3000, 0, 7, 0])
