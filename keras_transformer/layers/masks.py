"""Attention masks, padding and causal: pure functions on boolean tensors.

True means "may attend", everywhere. A layer takes a mask of one of these shapes, and
`fitted` says how it is read: (T, S) for all sentences, (B, T, S) for all heads, and
whatever broadcasts to the attention scores (B, H, T, S) with as many axes.

B batch, H heads, T query positions, S key positions.
"""

from __future__ import annotations

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor

# Added to the float32 scores of blocked pairs. Finite, so that a row in which
# everything is blocked stays finite; also in float16, to which Keras casts the inputs
# of a layer under that policy. So large that exp() of it is exactly 0 in any row where
# something is allowed.
BLOCKED = -6e4

# The same by Keras' own masks, which need no float16: in float32, scores vanish beside
# it, so that a row in which everything is blocked attends to all keys alike.
ALWAYS_BLOCKED = -1e9


def padding_mask(ids: Tensor, pad_id: int = 0) -> Tensor:
    """True where `ids` hold a token: (B, S) int -> (B, 1, 1, S) bool.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import masks
    >>> ops.convert_to_numpy(masks.padding_mask(ops.array([[5, 6, 0]])))[0, 0]
    array([[ True,  True, False]])
    """
    return ops.expand_dims(ops.not_equal(ids, pad_id), (1, 2))


def causal_mask(
    query_length: int | Tensor,
    key_length: int | Tensor | None = None,
    offset: int | Tensor = 0,
) -> Tensor:
    """True where the key is not later than the query: (T, S) bool.

    Args:
        query_length: T, an int or a scalar tensor.
        key_length: S; default T.
        offset: the position of the first query, for cached decoding.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """
    distance = _distance(query_length, key_length, offset)
    return ops.less_equal(distance, 0)


def local_mask(
    query_length: int | Tensor,
    window: int | Tensor,
    key_length: int | Tensor | None = None,
    offset: int | Tensor = 0,
) -> Tensor:
    """True where query and key are at most `window` apart: (T, S) bool.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 4,
    "restricted self-attention" with neighbourhood r = `window`.
    """
    distance = _distance(query_length, key_length, offset)
    return ops.less_equal(ops.abs(distance), window)


def combine(*masks: Tensor | None) -> Tensor | None:
    """The masks' conjunction, broadcast; None counts as "all allowed".

    Raises:
        ValueError: a mask is not boolean.
    """
    combined = None
    for mask in masks:
        if mask is None:
            continue
        if _dtype(mask) != "bool":
            raise ValueError(
                f"masks.combine joins boolean masks, got one of {_dtype(mask)}; "
                f'make it boolean with ops.cast(mask, "bool")'
            )
        combined = mask if combined is None else ops.logical_and(combined, mask)
    return combined


def attention_bias(mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """A mask as a float32 term to add to the scores: 0 or `BLOCKED`.

    Args:
        mask: boolean, True = may attend, or whole numbers 1 and 0 instead.
        bias: floating, added where the mask allows; broadcasts with it.

    Returns:
        Float32 of the shape of the mask, broadcast with that of the bias.

    Raises:
        ValueError: the mask is floating, or holds other whole numbers than 0 and 1.
            Where those are not known before the program runs, the bias is NaN at them.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import masks
    >>> ops.convert_to_numpy(masks.attention_bias(ops.array([True, False])))
    array([     0., -60000.], dtype=float32)
    """
    check_mask(mask)
    allowed = 0.0 if bias is None else ops.cast(bias, "float32")
    if _dtype(mask) == "bool":
        return ops.where(mask, allowed, BLOCKED)
    blocked = ops.where(ops.equal(mask, 0), BLOCKED, float("nan"))
    return ops.where(ops.equal(mask, 1), allowed, blocked)


def with_keras_masks(
    bias: Tensor | None,
    scores_shape: Shape,
    query_mask: Tensor | None = None,
    value_mask: Tensor | None = None,
    key_mask: Tensor | None = None,
    causal: Tensor | None = None,
) -> Tensor | None:
    """A bias (or None) joined with Keras' masks, as `keras.layers.MultiHeadAttention`.

    Where a Keras mask blocks, the result is so low that a row in which it blocks
    everything, as that of a query that is padding, attends to all keys alike.

    Args:
        bias: float32, broadcasts to the scores; None for none.
        scores_shape: (B, H, T, S).
        query_mask: (B, T), boolean or 1 and 0: False is padding.
        value_mask: (B, S).
        key_mask: (B, S).
        causal: (T, S) bool, see `causal_mask`.

    Returns:
        Float32 that broadcasts to the scores; the bias where there is nothing to join.

    Raises:
        ValueError: a mask has another dtype or shape.
    """
    allowed, batch = causal, scores_shape[:-3]
    for name, mask, axis in (
        ("query_mask", query_mask, -1),
        ("value_mask", value_mask, -2),
        ("key_mask", key_mask, -2),
    ):
        if mask is None:
            continue
        check_mask(mask, name)
        wanted = (*batch, scores_shape[-2] if axis == -1 else scores_shape[-1])
        shape = tuple(_tensor(mask).shape)
        if len(shape) != len(wanted) or _differ(shape, wanted):
            raise ValueError(
                f"{name} has the shape {shape}, but a padding mask has one value for "
                f"each position: {wanted}; give other masks as attention_mask"
            )
        # (B, 1, T, 1) or (B, 1, 1, S)
        mask = ops.expand_dims(ops.cast(mask, "bool"), (-3, axis))
        allowed = mask if allowed is None else ops.logical_and(allowed, mask)
    if allowed is None:
        return bias
    bias = 0.0 if bias is None else ops.cast(bias, "float32")
    return ops.where(allowed, bias, ALWAYS_BLOCKED)


def _differ(shape: Shape, wanted: Shape) -> bool:
    """Whether sizes differ that are both known."""
    pairs = zip(shape, wanted, strict=True)
    return any(
        isinstance(size, int) and isinstance(other, int) and size != other
        for size, other in pairs
    )


def is_by_key(mask: Tensor) -> bool:
    """Whether a boolean mask says the same for all heads and queries: (B, 1, 1, S)."""
    shape = tuple(_tensor(mask).shape)
    return _dtype(mask) == "bool" and len(shape) == 4 and shape[1:3] == (1, 1)


def check_mask(mask: Tensor, name: str = "attention_mask") -> None:
    """Refuses a mask that is neither boolean nor of whole numbers 0 and 1.

    Raises:
        ValueError: naming the argument `name`. Numbers that are known only when the
            program runs are not looked at.
    """
    dtype = _dtype(mask)
    if dtype == "bool":
        return
    if "int" not in dtype:
        raise ValueError(
            f"{name} is {dtype}, but a mask is boolean, True = may attend; numbers "
            f"that are added to the scores (0 and -1e9) go to attention_bias, and a "
            f'mask of 1.0 and 0.0 becomes boolean with ops.cast(mask, "bool")'
        )
    values = backends.concrete(mask)
    if values is not None and values.size and not 0 <= values.min() <= values.max() < 2:
        wrong = values.min() if values.min() < 0 else values.max()
        raise ValueError(
            f"{name} holds the whole number {wrong}, but a mask is boolean or of 1 "
            f"(may attend) and 0; numbers that are added to the scores go to "
            f"attention_bias, as floats"
        )


def check_bias(bias: Tensor, name: str = "attention_bias") -> None:
    """Refuses a bias that is not floating: it may be meant as a mask.

    Raises:
        ValueError: naming the argument `name`.
    """
    if "float" not in _dtype(bias):
        raise ValueError(
            f"{name} is {_dtype(bias)}, but it is added to the scores: give floats, 0 "
            f"where attention is allowed; a boolean mask goes to attention_mask, or "
            f"through masks.attention_bias"
        )


def fitted(mask: Tensor, scores_shape: Shape, name: str = "attention_mask") -> Tensor:
    """A mask or bias with its axes arranged to broadcast to the scores.

    Args:
        mask: one or two axes are the last of the scores, (S,) and (T, S); three are
            (B, T, S), also where B is H; more are all of the scores, such as
            (B, H, T, S). Each is 1 or that of the scores.
        scores_shape: (B, H, T, S), of a step with hypotheses (B, W, H, T, S); None
            where an axis is not known.
        name: of the argument, for the message.

    Returns:
        The mask, where three axes become as many as the scores have.

    Raises:
        ValueError: the mask has another shape.
    """
    mask = _tensor(mask)
    shape = tuple(mask.shape)
    rank, axes = len(scores_shape), len(shape)
    wanted = scores_shape[-axes:] if axes else ()
    if axes == 3:
        wanted = (scores_shape[0], *scores_shape[-2:])
    pairs = list(zip(shape, wanted, strict=False))
    known = [pair for pair in pairs if all(isinstance(size, int) for size in pair)]
    if axes not in (1, 2, 3, rank) or any(s not in (1, size) for s, size in known):
        raise ValueError(
            f"{name} has the shape {shape}, but the attention scores have "
            f"{tuple(scores_shape)}: batch, heads, queries, keys; give (queries, "
            f"keys), (batch, queries, keys) or all axes, each of its size or 1 (a mask "
            f"of padding is (batch, 1, 1, keys), see masks.padding_mask)"
        )
    if axes != 3:
        return mask
    return ops.expand_dims(mask, tuple(range(1, rank - 2)))


def _dtype(mask: Tensor) -> str:
    return keras.backend.standardize_dtype(_tensor(mask).dtype)


def _tensor(mask: Tensor) -> Tensor:
    return mask if hasattr(mask, "shape") else ops.convert_to_tensor(mask)


def _distance(
    query_length: int | Tensor, key_length: int | Tensor, offset: int | Tensor
) -> Tensor:
    """Key position minus query position: (T, S) int32."""
    # From 0 in words: Keras' export from JAX reads no range of a single argument.
    queries = ops.arange(0, query_length, dtype="int32") + offset
    if key_length is None:
        key_length = query_length
    keys = ops.arange(0, key_length, dtype="int32")
    return ops.expand_dims(keys, 0) - ops.expand_dims(queries, 1)
