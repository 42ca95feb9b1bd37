"""Buckets of sentence pairs of similar length, and the plan of their batches.

S source positions, T target positions.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

Shape = tuple[int, int, int]  # rows, S, T

#: The number of pairs of a corpus, and how often an epoch sees each pair.
Share = tuple[int, float]

#: `sizes_multiple_of` of a GPU. With 8, rows times positions are a multiple of 64; for
#: 515 rows of 47, XLA copies tensors to other sizes for 5 of the 55 ms of a step.
GPU_SIZES_MULTIPLE_OF = 8


@dataclasses.dataclass(frozen=True, eq=False)
class Stratum:
    """The pairs of one corpus in one bucket.

    Args:
        pairs: the indices of the pairs, longest first, (pairs,) int32.
        slots: how many pairs an epoch sees, repetitions included.
    """

    pairs: np.ndarray
    slots: int


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPlan:
    """The plan of batches that all epochs share.

    Args:
        strata: the strata of each bucket, longest bucket first. An epoch is a row of
            slots, bucket after bucket, with the slots of all its strata.
        cuts: the first slot of each batch, and the end, (batches + 1,).
        buckets: the index of each batch's shape, (batches,).
        shapes: (rows, S, T) of each bucket that has batches.
    """

    strata: list[list[Stratum]]
    cuts: np.ndarray
    buckets: np.ndarray
    shapes: list[Shape]


def plan_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    shares: Sequence[Share],
    batch_tokens: int,
    max_buckets: int,
    rows_multiple_of: int = 1,
    batch_source_tokens: int | None = None,
    sizes_multiple_of: int = 1,
    max_positions: int | None = None,
) -> BatchPlan:
    """Cuts the pairs, sorted by length, into buckets and these into batches.

    A bucket fills its last batch with pairs of the next shorter bucket, so that no
    training step uses the gradient of a handful of sentences; the shortest bucket
    spreads its pairs evenly over its batches.
    """
    # One length for both sides, the source scaled to the target.
    ratio = target_lengths.sum(dtype=np.int64) / source_lengths.sum(dtype=np.int64)
    scaled = np.ceil(np.arange(source_lengths.max() + 1) * ratio).astype(np.int32)
    lengths = np.maximum(scaled[source_lengths], target_lengths)
    ascending = _sorted(lengths, target_lengths, source_lengths)
    starts = np.flatnonzero(np.diff(lengths[ascending], prepend=-1))
    ends, source_sizes, target_sizes = _buckets(
        np.append(starts, len(lengths)),
        np.maximum.reduceat(source_lengths[ascending], starts),
        np.maximum.reduceat(target_lengths[ascending], starts),
        max_buckets,
        sizes_multiple_of,
        max_positions,
    )
    # From here on the longest bucket comes first, so that it can take shorter pairs.
    strata = [
        _strata(ascending[start:end][::-1], shares)
        for start, end in zip([0, *ends[:-1]], ends, strict=True)
    ][::-1]
    slots = [sum(stratum.slots for stratum in bucket) for bucket in strata]
    sizes = zip(source_sizes[::-1], target_sizes[::-1], strict=True)
    total, start, end = sum(slots), 0, 0
    cuts, buckets = [], []
    shapes: list[tuple[int, int, int]] = []
    for bucket_slots, (S, T) in zip(slots, sizes, strict=True):
        end += bucket_slots
        if start >= end:  # longer buckets took all of its pairs
            continue
        rows = batch_tokens // T
        if batch_source_tokens is not None:
            rows = min(rows, batch_source_tokens // S)
        unit = rows_multiple_of * unit_of_rows(rows, sizes_multiple_of)
        rows = max(rows // unit * unit, unit)
        batches = -(-(end - start) // rows)
        slots_taken = min(batches * rows, total - start)
        rows = -(-slots_taken // (batches * unit)) * unit
        cuts.append(start + np.arange(batches) * slots_taken // batches)
        buckets.append(np.full(batches, len(shapes)))
        shapes.append((int(rows), int(S), int(T)))
        start += slots_taken
    return BatchPlan(
        strata=strata,
        cuts=np.append(np.concatenate(cuts), total),
        buckets=np.concatenate(buckets),
        shapes=shapes,
    )


def unit_of_rows(rows: int, sizes_multiple_of: int) -> int:
    """Of what the rows of a batch are a multiple: 1 where there are few."""
    return sizes_multiple_of if rows >= 8 * sizes_multiple_of else 1


def _sorted(*keys: np.ndarray) -> np.ndarray:
    """Row numbers sorted by the first key, then by the second, ..., (rows,) int32.

    One stable sort per key; NumPy sorts 16-bit keys in linear time.
    """
    order = np.arange(len(keys[0]), dtype=np.int32)
    for key in reversed(keys):
        narrow = key.astype(np.uint16) if key.max() < 2**16 else key
        order = order[np.argsort(narrow[order], kind="stable")]
    return order


def _strata(pairs: np.ndarray, shares: Sequence[Share]) -> list[Stratum]:
    """The pairs of a bucket by corpus, with the slots that an epoch gives them."""
    strata, first = [], 0
    for count, weight in shares:
        corpus_pairs = pairs
        if len(shares) > 1:
            corpus_pairs = pairs[(pairs >= first) & (pairs < first + count)]
        if len(corpus_pairs):
            # Rounded up, so that rare pairs are seen at all; 0.7 * 10 is 7.000...1.
            strata.append(
                Stratum(corpus_pairs, math.ceil(len(corpus_pairs) * weight - 1e-6))
            )
        first += count
    return strata


def _buckets(
    ends: np.ndarray,
    sources: np.ndarray,
    targets: np.ndarray,
    max_buckets: int,
    sizes_multiple_of: int,
    max_positions: int | None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Buckets with the least padding, for pairs sorted by length.

    Dynamic programming over the distinct lengths: `cost[j, i]` is the cost of one
    bucket of lengths j to i: its pairs times its S + T positions.

    Args:
        ends: 0, and where each length ends in the sorted pairs, (lengths + 1,).
        sources: the longest source of each length.
        targets: the longest target of each length.
        max_buckets: the maximum number of buckets.
        sizes_multiple_of: of which number S and T are multiples.
        max_positions: up to which S and T are rounded up; None for any number.

    Returns:
        For each bucket its end in the sorted pairs, S and T.
    """
    longest = [np.maximum.accumulate(lengths) for lengths in (sources, targets)]
    sources, targets = (-(-n // sizes_multiple_of) * sizes_multiple_of for n in longest)
    if max_positions is not None:
        sources, targets = (
            np.maximum(np.minimum(rounded, max_positions), exact)
            for rounded, exact in zip((sources, targets), longest, strict=True)
        )
    starts, ends = ends[:-1], ends[1:]
    cost = (ends - starts[:, None]) * (sources + targets).astype(float)
    cost[np.tril_indices(len(ends), -1)] = np.inf

    least = cost[0]  # with one bucket, up to each length
    first_lengths = []  # of the last of 2, 3, ... buckets
    for _ in range(min(max_buckets, len(ends)) - 1):
        previous = np.append(np.inf, least[:-1])
        total = previous[:, None] + cost
        first_lengths.append(total.argmin(axis=0))
        least = total.min(axis=0)

    last = [len(ends) - 1]
    for first in reversed(first_lengths):
        last.insert(0, first[last[0]] - 1)
    return ends[last], sources[last], targets[last]
