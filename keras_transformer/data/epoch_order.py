"""Order of the pairs in an epoch: a pure function of seed and epoch."""

from __future__ import annotations

import numpy as np

from keras_transformer.data.buckets import BatchPlan
from keras_transformer.data.buckets import Stratum


class EpochOrder:
    """Fills the slots of a plan anew for each epoch.

    The pairs of a stratum are an endless cycle, in a fixed random order, from which
    each epoch takes its slots where the last one ended: after any number of epochs no
    pair was seen twice more often than another one of its corpus and length. Then the
    slots of a bucket are mixed, and the batches.

    Args:
        plan: what the epochs have in common.
        shuffle: False gives one order for every epoch, by falling length but for the
            second batch, which is the shortest.
        seed: of the order.
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
        """The pair in each slot, (slots,) int32, and the numbers of the batches."""
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
            # Within its bucket only, and so always in a bucket that is long enough.
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
    """Puts the last batch, the shortest, behind the first, the longest.

    Keras with TensorFlow reads two batches and takes a size for fixed where both agree:
    these two differ in S and in T unless all batches agree. And what does not fit into
    memory fails in the first step.
    """
    return np.concatenate([batches[:1], batches[1:][-1:], batches[1:-1]])
