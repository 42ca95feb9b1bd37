"""Attention as pure functions of queries, keys and values.

Scores and softmax are float32 whatever the inputs are. Leading axes are free: the
layers pass (B, H, T, K), cached decoding (B, W, H, 1, K).

B batch, H heads, G heads of keys and values, T query positions, S key positions,
K head_dim.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from keras import ops

from keras_transformer.layers import masks
from keras_transformer.tensors import Tensor


def scaled_dot_product_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    bias: Tensor | None = None,
    scale: float | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(scale * query keyᵀ + bias) value.

    Args:
        query: (..., T, K).
        key: (..., S, K); of (B, G, S, K) with fewer heads than the query, each is
            shared by H / G of those that follow one another.
        value: (..., S, value_dim), with the heads of the key.
        bias: floating, broadcasts to (..., T, S); see `masks.attention_bias`, which
            makes one of a boolean mask.
        scale: default 1 / √K, the paper's; 1.0 is plain dot-product attention.
        dropout: a function applied to the attention weights.

    Returns:
        The output (..., T, value_dim) in the dtype of `value`, and the attention
        weights (..., T, S) in float32 before dropout.

    Raises:
        ValueError: the bias is not floating.

    Example:

    >>> from keras import random
    >>> from keras_transformer.layers import scaled_dot_product_attention
    >>> q, k, v = (random.normal((2, 3, 5, 7)) for _ in range(3))
    >>> output, weights = scaled_dot_product_attention(q, k, v)
    >>> tuple(output.shape), tuple(weights.shape)
    ((2, 3, 5, 7), (2, 3, 5, 5))

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, equation 1;
    shared keys and values: Ainslie et al., 2023, https://arxiv.org/abs/2305.13245.
    """
    if scale is None:
        scale = 1.0 / math.sqrt(query.shape[-1])
    # The small operand is scaled: T x K products instead of T x S.
    if scale != 1.0:
        query = ops.multiply(query, scale)
    scores = _matmul(query, ops.swapaxes(key, -1, -2))  # (..., T, S)
    return _attend(scores, value, bias, dropout)


def additive_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    score_weights: Tensor,
    bias: Tensor | None = None,
    dropout: Callable[[Tensor], Tensor] | None = None,
) -> tuple[Tensor, Tensor]:
    """softmax(vᵀ tanh(query + key) + bias) value, v = `score_weights` (K,).

    The projections W of the query and U of the key are the caller's. Arguments and
    returns are otherwise those of `scaled_dot_product_attention`. Holds
    (..., T, S, K): made for comparison, not for speed.

    Reference: Bahdanau et al., 2015, https://arxiv.org/abs/1409.0473, section A.1.2.
    """
    if (repeats := _heads_a_group(query, key)) > 1:
        key = ops.repeat(key, repeats, axis=-3)
    hidden = ops.tanh(ops.expand_dims(query, -2) + ops.expand_dims(key, -3))
    scores = ops.sum(hidden * score_weights, axis=-1)  # (..., T, S)
    return _attend(scores, value, bias, dropout)


def _attend(
    scores: Tensor,
    value: Tensor,
    bias: Tensor | None,
    dropout: Callable[[Tensor], Tensor] | None,
) -> tuple[Tensor, Tensor]:
    scores = ops.cast(scores, "float32")
    if bias is not None:
        masks.check_bias(bias, "bias")
        scores = scores + ops.cast(bias, "float32")
    # Keras warns of a softmax over a single key, which is a sentence of one token. What
    # PyTorch traces for an export has no int here, and other sentences later on.
    size = scores.shape[-1]
    single = isinstance(size, int) and size == 1
    weights = ops.ones_like(scores) if single else ops.softmax(scores, axis=-1)
    mixture = weights if dropout is None else dropout(weights)
    return _matmul(ops.cast(mixture, value.dtype), value), weights


def _matmul(heads: Tensor, groups: Tensor) -> Tensor:
    """(..., H, T, X) times (..., G, X, Y): (..., H, T, Y), each group for H/G heads."""
    if (repeats := _heads_a_group(heads, groups)) == 1:
        return ops.matmul(heads, groups)
    *leading, num_heads, length, _ = ops.shape(heads)
    # The heads of a group as one longer matrix: nothing is copied for each head.
    size = ops.shape(heads)[-1]
    rows = (*leading, num_heads // repeats, repeats * length, size)
    products = ops.matmul(ops.reshape(heads, rows), groups)
    return ops.reshape(products, (*leading, num_heads, length, ops.shape(groups)[-1]))


def _heads_a_group(heads: Tensor, groups: Tensor) -> int:
    """The number of query heads that share one head of keys and values."""
    if len(heads.shape) < 4:
        return 1
    num_heads, num_groups = heads.shape[-3], groups.shape[-3]
    if not (isinstance(num_heads, int) and isinstance(num_groups, int)):
        return 1
    if num_heads % num_groups:
        raise ValueError(
            f"{num_heads} heads of queries cannot share {num_groups} heads of keys and "
            f"values; give a number that divides {num_heads}"
        )
    return num_heads // num_groups
