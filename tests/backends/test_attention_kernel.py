"""Attention by the device's kernel: the same numbers, wherever it is taken."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import masks
from reference import models
from reference import numpy_layers
from reference.weights import ids
from reference.weights import normal
from reference.weights import numpy

BACKEND = keras.backend.backend()
pytestmark = pytest.mark.skipif(BACKEND == "tensorflow", reason="has no such kernel")
#: As far as the numbers of each dtype may be apart.
DTYPES = {"float32": 1e-5, "bfloat16": 2e-3}
ROWS, HEADS, LENGTH, SIZE = 3, 2, 8, 16
#: Of each row, also where padding is not at the end.
ALLOWED = np.ones((ROWS, LENGTH), bool)
ALLOWED[1, 3:] = False
ALLOWED[2, [0, 4, 5]] = False
#: Kernels want the size of a value to be that of a key.
FIELDS = {"head_dim": 16, "value_dim": 16}


@pytest.fixture
def kernel(monkeypatch):
    """Kernels, on the processor as well; counts the calls."""
    calls = []
    own = backends.kernel_attention

    def counted(*arguments):
        calls.append(arguments)
        return own(*arguments)

    monkeypatch.setattr(backends, "has_attention_kernel", lambda *arguments: True)
    monkeypatch.setattr(backends, "kernel_attention", counted)
    if BACKEND == "jax":  # the same call without cuDNN
        from keras_transformer.backends import jax as backend

        monkeypatch.setattr(backend, "_ATTENTION", "xla")
    return calls


@pytest.mark.parametrize("limit", ["none", "padding", "causal"])
@pytest.mark.parametrize("length", [LENGTH, LENGTH - 1])
@pytest.mark.parametrize("dtype", DTYPES)
def test_a_kernel_is_the_formula(kernel, dtype, length, limit):
    """Also of an odd length, which cuDNN is not asked for."""
    allowed = ALLOWED[:, :length]
    tensors = [
        ops.cast(scale * normal(ROWS, HEADS, length, SIZE, seed=seed), dtype)
        # Values so small that rounding an output is much less than what is allowed.
        for seed, scale in enumerate((0.5, 0.5, 0.1))
    ]
    bias = None
    if limit == "padding":
        mask = ops.convert_to_tensor(allowed[:, None, None])
        bias = ops.cast(masks.attention_bias(mask), dtype)
    found = backends.kernel_attention(*tensors, bias, limit == "causal", SIZE**-0.5)
    assert keras.backend.standardize_dtype(found.dtype) == dtype
    query, key, value = (numpy(tensor).astype("float64") for tensor in tensors)
    for row in range(ROWS):
        mask = numpy_layers.causal_mask(length) if limit == "causal" else None
        if limit == "padding":
            mask = np.broadcast_to(allowed[row], (length, length))
        for head in range(HEADS):
            at = row, head
            expected, _ = numpy_layers.attention(query[at], key[at], value[at], mask)
            np.testing.assert_allclose(numpy(found)[at], expected, atol=DTYPES[dtype])


def test_a_row_of_padding_alone_is_finite(kernel):
    tensors = [
        ops.cast(normal(1, 1, 4, 16, seed=seed), "bfloat16") for seed in range(3)
    ]
    bias = ops.full((1, 1, 1, 4), masks.BLOCKED, "bfloat16")
    assert np.isfinite(
        numpy(backends.kernel_attention(*tensors, bias, False, 1.0))
    ).all()


@pytest.mark.parametrize("kind", ["paper", "rotary"])
def test_a_model_computes_the_same_by_kernels(kernel, monkeypatch, kind):
    fields = dict(FIELDS) if kind == "paper" else {**FIELDS, "position": "rotary"}
    model = models.build("paper", **fields)
    data = ids((7, 4, 9), seed=1), ids((5, 8, 3), seed=2)
    data[0][2, 4] = 0  # padding between tokens
    found = models.logits_of(model, *data)
    config = model.config
    assert len(kernel) == config.num_encoder_layers + 2 * config.num_decoder_layers
    monkeypatch.setattr(backends, "has_attention_kernel", lambda *arguments: False)
    expected = models.logits_of(model, *data)
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


class Cosine(MultiHeadAttention):
    """A user's own scoring."""

    def attend(self, queries, keys, values, bias, training=None):
        keys = ops.normalize(keys, axis=-1)
        return super().attend(queries, keys, values, bias, training)


#: What the kernels cannot do: arguments of the layer, and of its call.
OTHERS = {
    "weights asked for": (MultiHeadAttention, {}, {"return_attention_weights": True}),
    "dropout": (MultiHeadAttention, {"dropout": 0.1}, {"training": True}),
    "additive": (MultiHeadAttention, {"attention_scoring": "additive"}, {}),
    "window": (MultiHeadAttention, {"window": 2}, {}),
    "values of another size": (MultiHeadAttention, {"value_dim": 5}, {}),
    "own scoring": (Cosine, {}, {}),
    "bias": (MultiHeadAttention, {}, {"attention_bias": np.zeros((8, 8), "float32")}),
    "mask by query": (
        MultiHeadAttention,
        {},
        {"attention_mask": np.ones((8, 8), bool)},
    ),
    "mask of numbers": (
        MultiHeadAttention,
        {},
        {"attention_mask": np.ones((1, 1, 1, 8), "int32")},
    ),
    "Keras mask": (MultiHeadAttention, {}, {"mask": np.ones((2, 8), bool)}),
}


@pytest.mark.parametrize(("layer", "fields", "call"), OTHERS.values(), ids=OTHERS)
def test_other_attention_is_computed_as_before(kernel, layer, fields, call):
    inputs = ops.convert_to_tensor(normal(2, LENGTH, 12))
    layer(2, 6, **fields)(inputs, **call)
    assert kernel == []


def test_a_processor_has_a_kernel_in_training_on_pytorch_alone():
    """Where that has been measured to be the faster."""
    assert not backends.has_attention_kernel(ops.zeros((1,), "bfloat16"), True)
    assert not backends.has_attention_kernel(ops.zeros((1,)), None)
    assert backends.has_attention_kernel(ops.zeros((1,)), True) is (BACKEND == "torch")
