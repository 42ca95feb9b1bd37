"""Restricted self-attention in blocks, whose cost grows with n rather than n².

Queries are taken in blocks of C. A block is compared with its own keys and with the r
on either side, so no array is larger than T * (C + 2r).

B batch, H heads, G heads of keys and values, T positions, K head_dim, r window,
C queries of a block, N blocks, R keys that a block may see, L places of a cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from keras import ops

from keras_transformer.layers import masks
from keras_transformer.tensors import Tensor

#: Matrix products of smaller blocks would take longer.
SMALLEST_BLOCK = 32


def banded_attention(
    attend: Callable[..., tuple[Tensor, Tensor]],
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    window: int,
    *,
    bias: Tensor | None = None,
    causal: bool = False,
    distance_bias: Callable[..., Tensor | None] | None = None,
) -> Tensor:
    """Attention of each position to those at most `window` away, O(r T K).

    Equal to attention with `masks.local_mask`, and with `masks.causal_mask` where it is
    causal, except at positions whose whole neighbourhood is blocked.

    Args:
        attend: `(queries (B, N, H, C, K), keys (B, N, G, R, K), values, bias) ->
            output (B, N, H, C, value_dim), weights`.
        queries: (B, H, T, K).
        keys: (B, G, T, K).
        values: (B, G, T, value_dim).
        window: r, at least 1.
        bias: floating, added to the scores of each key: broadcasts to (B, H, 1, T),
            with four axes; None for nothing.
        causal: no position attends to a later one.
        distance_bias: `(query_positions (C,), key_positions (R,)) -> (H, C, R)` or
            None, added to the scores; it depends on the distances alone.

    Returns:
        (B, H, T, value_dim).

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 4 and
    Table 1, "self-attention (restricted)".
    """
    length = ops.shape(queries)[-2]
    block, before = _block_size(length, window)
    after = 0 if causal else before

    def neighbourhoods(states: Tensor) -> Tensor:
        return _with_neighbours(_blocks(states, block), before, after)

    query_positions = ops.arange(0, block, dtype="int32") + before  # in a neighbourhood
    key_positions = ops.arange(0, before + block + after, dtype="int32")
    distance = key_positions - ops.expand_dims(query_positions, 1)  # (C, R)
    band = ops.abs(distance) <= window
    if causal:
        band = ops.logical_and(band, distance <= 0)
    is_real = ops.ones((1, 1, length, 1), dtype="bool")
    allowed = ops.logical_and(_by_key(neighbourhoods(is_real)), band)
    if bias is not None:
        bias = _by_key(neighbourhoods(ops.swapaxes(bias, -1, -2)))
    bias = masks.attention_bias(allowed, bias)  # (B, N, H, C, R), B and H may be 1
    if distance_bias is not None:
        added = distance_bias(query_positions, key_positions)
        bias = bias if added is None else bias + ops.cast(added, "float32")
    output, _ = attend(
        _blocks(queries, block), neighbourhoods(keys), neighbourhoods(values), bias
    )
    rows, _, heads, _, size = ops.shape(output)
    output = ops.reshape(ops.swapaxes(output, 1, 2), (rows, heads, -1, size))
    return output[:, :, :length]


def saves(length: Any, window: int, training: bool | None, causal: bool) -> bool:
    """Whether blocks need fewer scores than all pairs of `length` positions.

    A length that is known only when the program runs is taken for a long one in
    training and for a short one otherwise: exports of a model keep the masked form.
    """
    if not isinstance(length, int):
        return bool(training)
    block, before = _block_size(length, window)
    return length > block + before * (1 if causal else 2)


def held_position(place: Tensor, position: Tensor, places: int | Tensor) -> Tensor:
    """The position whose key a place of a ring cache holds, negative for none yet.

    Position p is written at place p mod L, over that of p - L.

    Args:
        place: int32, of any shape.
        position: scalar int32, the newest.
        places: L.
    """
    return position - ops.mod(position - place, places)


def _block_size(length: Any, window: int) -> tuple[Any, Any]:
    """C, and how many positions before a block may be seen: neither above T."""
    block = max(window, SMALLEST_BLOCK)
    if isinstance(length, int):
        return min(block, length), min(window, length)
    return ops.minimum(block, length), ops.minimum(window, length)


def _blocks(states: Tensor, block: int | Tensor) -> Tensor:
    """(B, X, T, K) -> (B, N, X, C, K), with zeros behind the last position."""
    rows, heads, length, size = ops.shape(states)
    states = ops.pad(states, ((0, 0), (0, 0), (0, -length % block), (0, 0)))
    states = ops.reshape(states, (rows, heads, -1, block, size))
    return ops.swapaxes(states, 1, 2)


def _with_neighbours(
    blocks: Tensor, before: int | Tensor, after: int | Tensor
) -> Tensor:
    """(B, N, X, C, K) -> (B, N, X, before + C + after, K), zeros beyond both ends."""
    block = ops.shape(blocks)[3]
    ends = blocks[:, :-1, :, block - before :]
    parts = [_shifted(ends, (1, 0)), blocks]
    if not (isinstance(after, int) and after == 0):
        parts.append(_shifted(blocks[:, 1:, :, :after], (0, 1)))
    return ops.concatenate(parts, axis=3)


def _shifted(blocks: Tensor, padding: tuple[int, int]) -> Tensor:
    return ops.pad(blocks, ((0, 0), padding, (0, 0), (0, 0), (0, 0)))


def _by_key(states: Tensor) -> Tensor:
    """(B, N, X, R, 1) -> (B, N, X, 1, R)."""
    return ops.swapaxes(states, -1, -2)
