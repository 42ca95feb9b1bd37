"""Order of the pairs in an epoch: a pure function of seed and epoch."""

from __future__ import annotations

import numpy as np

from keras_transformer.data.buckets import BatchPlan
from keras_transformer.data.buckets import Stratum


class EpochOrder:
    """The pairs in the slots of a plan, shuffled for each epoch.

    The pairs of a stratum form an endless cycle in a fixed random order. Each epoch
    continues the cycle where the last one ended, so pairs of one corpus and length are
    seen equally often, up to one time. Then the slots of each bucket are shuffled, and
    the batches.

    Args:
        plan: the plan of batches.
        shuffle: False gives the same order in every epoch: longest first, except for
            the second batch, which is the shortest.
        seed: the seed of the order.
    """

    def __init__(self, plan: BatchPlan, shuffle: bool, seed: int) -> None:
        self._shuffle = shuffle
        self._seed = seed
        self._batches = np.arange(len(plan.buckets))
        self._strata = plan.strata
        if shuffle:
            random = np.random.default_rng((seed, 0, 1))
            self._strata = [
                [_mixed(stratum, random) for stratum in bucket]
                for bucket in plan.strata
            ]
        self._epoch: int | None = None
        self._current: tuple[np.ndarray, np.ndarray] | None = None

    def __call__(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        """The pair in each slot, (slots,) int32, and the order of the batches."""
        epoch = epoch if self._shuffle else 0
        if self._current is None or self._epoch != epoch:
            self._current = self._draw(epoch)
            self._epoch = epoch
        return self._current

    def _draw(self, epoch: int) -> tuple[np.ndarray, np.ndarray]:
        random = np.random.default_rng((self._seed, epoch))
        batches = self._batches.copy()
        slots = []
        for bucket in self._strata:
            # Only within its bucket, so that every pair fits its batch.
            filled = np.concatenate([_fill(stratum, epoch) for stratum in bucket])
            if self._shuffle:
                random.shuffle(filled)
            slots.append(filled)
        if self._shuffle:
            random.shuffle(batches[1:-1])
        return np.concatenate(slots), _longest_and_shortest_first(batches)


def _mixed(stratum: Stratum, random: np.random.Generator) -> Stratum:
    if stratum.slots % len(stratum.pairs) == 0:  # every epoch sees all of them
        return stratum
    return Stratum(random.permutation(stratum.pairs), stratum.slots)


def _fill(stratum: Stratum, epoch: int) -> np.ndarray:
    begin = epoch * stratum.slots % len(stratum.pairs)
    return np.resize(np.roll(stratum.pairs, -begin), stratum.slots)


def _longest_and_shortest_first(batches: np.ndarray) -> np.ndarray:
    """Moves the last batch, the shortest, behind the first, the longest.

    With TensorFlow, Keras reads two batches and treats a size as fixed where both
    agree: these two differ in S and T unless all batches agree. Also, a batch that does
    not fit into memory fails in the first step.
    """
    return np.concatenate([batches[:1], batches[1:][-1:], batches[1:-1]])
