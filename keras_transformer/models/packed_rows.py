"""Packed rows: which sentence each position belongs to, and its place in it.

Rows as `data.PackedBatches` has them. B batch, T target positions, S source positions.
"""

from __future__ import annotations

from typing import NamedTuple

from keras import ops

from keras_transformer.layers import masks
from keras_transformer.tensors import Tensor


class Sentences(NamedTuple):
    """The sentences of rows (B, T) of ids.

    Attributes:
        numbers: (B, T) int32, the number in its row of the sentence of each position,
            from 1; padding at the end of a row counts on.
        positions: (B, T) int32, from 0 at the beginning of each sentence.

    Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 3.1.2.
    """

    numbers: Tensor
    positions: Tensor


def of_sources(ids: Tensor, end_id: int) -> Sentences:
    """Sentences that each end with `end_id`.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.models import packed_rows
    >>> sentences = packed_rows.of_sources(ops.array([[7, 8, 2, 9, 2, 0]]), end_id=2)
    >>> ops.convert_to_numpy(sentences.positions)
    array([[0, 1, 2, 0, 1, 0]], dtype=int32)
    """
    ends = ops.cast(ops.equal(ids, end_id), "int32")
    after = ops.pad(ends[:, :-1], ((0, 0), (1, 0)))
    return _sentences(1 + ops.cumsum(after, axis=1))


def of_targets(ids: Tensor, start_id: int) -> Sentences:
    """Sentences that each begin with `start_id`."""
    starts = ops.cast(ops.equal(ids, start_id), "int32")
    return _sentences(ops.cumsum(starts, axis=1))


def _sentences(numbers: Tensor) -> Sentences:
    """Sentences by the number of that of each position."""
    numbers = ops.cast(numbers, "int32")
    sentences = Sentences(numbers, numbers)
    earlier = masks.causal_mask(ops.shape(numbers)[1])
    own = masks.combine(own_sentence(sentences, sentences), earlier)
    # Those of its sentence up to itself.
    count = ops.sum(ops.cast(own, "int32"), axis=(1, 3))
    return Sentences(numbers, count - 1)


def own_sentence(queries: Sentences, keys: Sentences) -> Tensor:
    """True where query and key belong to sentences of one number: (B, 1, T, S) bool."""
    return ops.equal(
        ops.expand_dims(queries.numbers, (1, 3)), ops.expand_dims(keys.numbers, (1, 2))
    )


def biases(
    source: Tensor, target: Tensor, sources: Sentences, targets: Sentences, pad_id: int
) -> tuple[Tensor, Tensor, Tensor]:
    """The biases of attention in encoder, decoder, and from decoder to encoder.

    Returns:
        Float32 (B, 1, S, S), (B, 1, T, T) and (B, 1, T, S), see `masks.attention_bias`.
    """
    is_text = masks.padding_mask(source, pad_id)
    causal = masks.causal_mask(ops.shape(target)[1])
    return (
        masks.attention_bias(masks.combine(own_sentence(sources, sources), is_text)),
        masks.attention_bias(masks.combine(own_sentence(targets, targets), causal)),
        masks.attention_bias(masks.combine(own_sentence(targets, sources), is_text)),
    )
