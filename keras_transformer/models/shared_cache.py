"""KV cache shared by all hypotheses of a sentence, which a search need not copy.

The key and value of hypothesis w at position p stay where they are written, at index
(p mod L) * W + w. A small table holds which of the W entries of each position belong to
the past of a hypothesis, and a search reorders only this table. The price is that each
of W queries is compared with W * L keys, of which L count.

B batch, W beam width, L length of the cache, H heads, K head_dim.
"""

from __future__ import annotations

from typing import Any
from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.beam_groups import gather
from keras_transformer.tensors import Tensor

#: With more hypotheses the comparisons would cost more than the copies.
MOST_HYPOTHESES = 8


class SharedCache(NamedTuple):
    """The shared KV cache: keys (B, H, L * W, K), values and a table.

    Reference: the cached keys and values of Vaswani et al., 2017,
    https://arxiv.org/abs/1706.03762, section 3.2.3, under a beam search.
    """

    layers: Any  # of each layer keys (B, H, L * W, K) and values
    writers: Any  # (B, W, L) int32, the hypothesis that wrote each position of a past


def empty(layers: Any, beam_size: int) -> SharedCache:
    """The cache before its first step, of zeros (B, H, L * W, ...)."""
    rows, _, places, _ = ops.shape(layers[0][0])
    writers = ops.zeros((rows, beam_size, places // beam_size), dtype="int32")
    return SharedCache(layers, writers)


def written(cache: SharedCache, position: Tensor) -> SharedCache:
    """The cache whose table records that each hypothesis writes at `position` mod L."""
    width, length = ops.shape(cache.writers)[1:]
    place = ops.mod(position, length)
    is_current = ops.equal(ops.arange(length, dtype="int32"), place)  # (L,)
    hypotheses = ops.expand_dims(ops.arange(width, dtype="int32"), 1)  # (W, 1)
    return cache._replace(writers=ops.where(is_current, hypotheses, cache.writers))


def own_past(cache: SharedCache, allowed: Tensor) -> Tensor:
    """The mask of each hypothesis' past, of positions (1, L): (B, 1, W, L * W)."""
    rows, width, _ = ops.shape(cache.writers)
    hypotheses = ops.arange(width, dtype="int32")
    past = ops.equal(ops.expand_dims(cache.writers, 3), hypotheses)  # (B, W, L, W)
    past = ops.logical_and(past, ops.expand_dims(allowed, 2))
    return ops.reshape(past, (rows, 1, width, -1))


def reordered(cache: SharedCache, beams: Tensor) -> SharedCache:
    """The cache after which hypothesis w continues `beams[:, w]`: (B, W) int32."""
    return cache._replace(writers=gather(cache.writers, beams))
