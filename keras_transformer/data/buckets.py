"""Which sentence pairs share a bucket, and where a bucket is cut into batches.

S source positions, T target positions.
"""

from __future__ import annotations

import dataclasses

import numpy as np

Shape = tuple[int, int, int]  # rows, S, T


@dataclasses.dataclass(frozen=True, eq=False)
class BatchPlan:
    """What all epochs have in common.

    Args:
        pairs: the numbers of the pairs, longest bucket first, (pairs,).
        bucket_ends: where each bucket ends in `pairs`.
        cuts: where each batch begins in `pairs`, and the end, (batches + 1,).
        buckets: which of the shapes each batch has, (batches,).
        shapes: (rows, S, T) of each bucket that has batches.
    """

    pairs: np.ndarray
    bucket_ends: np.ndarray
    cuts: np.ndarray
    buckets: np.ndarray
    shapes: list[Shape]


def plan_batches(
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    batch_tokens: int,
    max_buckets: int,
    rows_multiple_of: int,
) -> BatchPlan:
    """Cuts the pairs, sorted by length, into buckets and these into batches.

    A bucket whose last batch is not full takes pairs of the next shorter bucket into
    it, so that no step of the training follows the gradient of a handful of
    sentences; the shortest bucket spreads its pairs evenly over its batches.
    """
    # One length for both sides, the source scaled to the target.
    ratio = target_lengths.sum() / source_lengths.sum()
    lengths = np.maximum(np.ceil(source_lengths * ratio).astype(int), target_lengths)
    ascending = np.lexsort((source_lengths, target_lengths, lengths))
    ends, source_sizes, target_sizes = _buckets(
        lengths[ascending],
        np.maximum.accumulate(source_lengths[ascending]),
        np.maximum.accumulate(target_lengths[ascending]),
        max_buckets,
    )
    total = len(lengths)
    # From here on the longest comes first, so that it can take what it lacks.
    bucket_ends = total - np.append(0, ends[:-1])[::-1]
    source_sizes, target_sizes = source_sizes[::-1], target_sizes[::-1]
    cuts, buckets, shapes, start = [], [], [], 0
    for end, S, T in zip(bucket_ends, source_sizes, target_sizes, strict=True):
        if start >= end:  # longer buckets took all of it
            continue
        rows = batch_tokens // T // rows_multiple_of * rows_multiple_of
        rows = max(rows, rows_multiple_of)
        batches = -(-(end - start) // rows)
        taken = min(batches * rows, total - start)
        rows = -(-taken // (batches * rows_multiple_of)) * rows_multiple_of
        cuts.append(start + np.arange(batches) * taken // batches)
        buckets.append(np.full(batches, len(shapes)))
        shapes.append((int(rows), int(S), int(T)))
        start += taken
    return BatchPlan(
        pairs=ascending[::-1],
        bucket_ends=bucket_ends,
        cuts=np.append(np.concatenate(cuts), total),
        buckets=np.concatenate(buckets),
        shapes=shapes,
    )


def _buckets(
    lengths: np.ndarray,
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    max_buckets: int,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where to cut pairs sorted by `lengths` so that padding is least.

    Dynamic programming over the distinct lengths: `cost[j, i]` is what one bucket of
    lengths j to i costs, its pairs times its S + T positions.

    Args:
        lengths: ascending.
        source_lengths: the longest source up to each pair.
        target_lengths: the longest target up to each pair.
        max_buckets: the most buckets.

    Returns:
        Of each bucket: its end in the sorted pairs, S and T.
    """
    ends = np.append(np.flatnonzero(np.diff(lengths)) + 1, len(lengths))
    starts = np.append(0, ends[:-1])
    positions = source_lengths[ends - 1] + target_lengths[ends - 1]
    cost = (ends - starts[:, None]) * positions.astype(float)
    cost[np.tril_indices(len(ends), -1)] = np.inf

    least = cost[0]  # with one bucket, up to each length
    first_lengths = []  # of the last of 2, 3, ... buckets
    for _ in range(min(max_buckets, len(ends)) - 1):
        before = np.append(np.inf, least[:-1])
        total = before[:, None] + cost
        first_lengths.append(total.argmin(axis=0))
        least = total.min(axis=0)

    last = [len(ends) - 1]
    for first in reversed(first_lengths):
        last.insert(0, first[last[0]] - 1)
    chosen = ends[last]
    return chosen, source_lengths[chosen - 1], target_lengths[chosen - 1]
