"""Packing: several short sentence pairs in one row of a batch.

B rows, L positions of a row.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from keras_transformer.arguments import check_counts
from keras_transformer.data.batching import Batch
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.buckets import BatchPlan
from keras_transformer.data.buckets import Stratum
from keras_transformer.data.buckets import unit_of_rows
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError


class PackedBatches(TokenBatches):
    """Token batches of one shape, whose rows hold several sentence pairs each.

    The sources of a row follow each other, and so do its targets, in the same order;
    padding is at its end alone. A model with `packs_rows = True` reads such rows: a
    sentence begins at position 0, and attends only to itself and its own source. Loss
    and gradients are those of `TokenBatches` of the same pairs.

    There is one shape, so that one program is compiled, and hardly any padding. Which
    pairs share a row is drawn once; the rows are shuffled anew in each epoch. A row is
    filled with pairs of one corpus of `shares`.

    Everything else is as in `TokenBatches`.

    Args:
        pairs: the sentence pairs. Each source ends with `end_id`.
        batch_tokens: the maximum number of target positions of a batch, padding
            included, and of source positions; at least one row.
        length: L, the positions of a row on either side.
        options: those of `TokenBatches`, but `max_buckets` and `batch_source_tokens`.

    Attributes:
        num_rows: the number of packed rows, of all corpora.

    Raises:
        InputError: where a pair is longer than a row, there are no pairs, or a number
            is not positive.

    Example:

    >>> from keras_transformer.data import PackedBatches
    >>> from keras_transformer.data import EncodedPairs
    >>> from keras_transformer.data import TokenRows
    >>> rows = TokenRows.from_lists([[5, 6, 7], [8], [3, 9]])
    >>> batches = PackedBatches(EncodedPairs(rows, rows), length=7, shuffle=False)
    >>> inputs, labels, weights = batches[0]
    >>> labels
    array([[5, 6, 7, 2, 3, 9, 2],
           [8, 2, 0, 0, 0, 0, 0]], dtype=int32)

    Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 3.1.2;
    best-fit packing: Ding et al., 2024, https://arxiv.org/abs/2404.10830.
    """

    is_packed = True

    def __init__(
        self,
        pairs: EncodedPairs,
        batch_tokens: int = 4096,
        *,
        length: int,
        **options: Any,
    ) -> None:
        check_counts(length=length)
        self.length = length
        super().__init__(pairs, batch_tokens, **options)

    def __getitem__(self, index: int) -> Batch:
        epoch, batch, rows, (B, _, _) = self._planned_batch(index)
        part, parts = self._part
        begin, end = part * (B // parts), (part + 1) * (B // parts)
        numbers, row_of = self._pairs_of(rows)
        tokens = self._tokens_of(rows)
        if not self._is_plain:
            # All are segmented: the number of tokens of the other parts is needed.
            room = self._room[0][numbers], self._room[1][numbers]
            seed = (self.seed, epoch, batch)
            pairs = self._drawn(numbers, room, seed)
            tokens = len(pairs.target.ids) + len(pairs) * self._added
            here = np.flatnonzero((begin <= row_of) & (row_of < end))
            pairs, row_of = pairs.take(here), row_of[here]
        else:
            here = (begin <= row_of) & (row_of < end)
            pairs, row_of = self.pairs.take(numbers[here]), row_of[here]
        return self._packed(pairs, row_of - begin, B // parts, tokens)

    def _planned(
        self,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        batch_tokens: int,
        max_buckets: int,
        batch_source_tokens: int | None,
    ) -> BatchPlan:
        """The plan of packed rows, in the place of pairs."""
        if self.bpe_dropout is not None or self.augment is not None:
            # No room that a row has not: what does not fit stays as it is.
            plain = self.pairs.source.lengths + np.int32(self.source_end)
            source_lengths = _up_to(source_lengths, self.length, plain)
            plain = self.pairs.target.lengths + np.int32(self._added)
            target_lengths = _up_to(target_lengths, self.length, plain)
        longest = max(source_lengths.max(), target_lengths.max())
        if longest > self.length:
            raise InputError(
                f"a pair of {longest} tokens, special ids included, does not fit into "
                f"a row of {self.length} positions; give a greater length, or leave "
                f"out long pairs"
            )
        # The room of each pair, as TokenBatches has planned it.
        self._room = source_lengths - self.source_end, target_lengths - self._added
        members: list[TokenRows] = []
        strata, first = [], 0
        for count, weight in self.shares:
            pairs = np.arange(first, first + count)
            random = np.random.default_rng((self.seed, first, 2))
            if self.shuffle:
                random.shuffle(pairs)
            lengths = source_lengths[pairs], target_lengths[pairs]
            begun = sum(len(rows) for rows in members)
            members.append(_best_fit(pairs, *lengths, self.length))
            rows = np.arange(begun, begun + len(members[-1]))
            slots = int(np.ceil(len(rows) * weight - 1e-6))
            strata.append(Stratum(rows, slots))
            first += count
        self._members = TokenRows.concatenate(members)
        total = sum(stratum.slots for stratum in strata)
        rows = min(max(batch_tokens // self.length, 1), total)
        unit = unit_of_rows(rows, self.sizes_multiple_of)
        batches = -(-total // (rows // unit * unit))
        rows = -(-total // (batches * unit)) * unit
        return BatchPlan(
            strata=[strata],
            cuts=np.arange(batches + 1) * total // batches,
            buckets=np.zeros(batches, int),
            shapes=[(rows, self.length, self.length)],
        )

    @property
    def num_rows(self) -> int:
        return len(self._members)

    def _pairs_of(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the pairs in these rows, and the place of the row of each."""
        members = self._members.take(rows)
        return members.ids, np.repeat(np.arange(len(rows)), members.lengths)

    def _tokens_of(self, pairs: np.ndarray) -> int:
        """The target tokens of the packed rows with these numbers."""
        numbers, _ = self._pairs_of(pairs)
        lengths = self._target_lengths(numbers)
        return int(lengths.sum()) + len(lengths) * self._added

    def _packed(
        self, pairs: EncodedPairs, row_of: np.ndarray, num_rows: int, tokens: int
    ) -> Batch:
        """Pairs in their rows; `tokens` are those of the whole batch."""
        shape = num_rows, self.length
        source = np.full(shape, self.pad_id, np.int32)
        target = np.full(shape, self.pad_id, np.int32)
        labels = np.full(shape, self.pad_id, np.int32)
        weights = np.zeros(shape, np.float32)

        lengths = pairs.source.lengths
        begin = _begin(lengths + self.source_end, row_of)
        last = row_of, begin + lengths + self.source_end - 1
        source[_places(row_of, begin, lengths)] = pairs.source.ids
        if self.source_end:
            source[row_of, begin + lengths] = self.end_id
        lengths = pairs.target.lengths
        begin = _begin(lengths + self._added, row_of)
        if pairs.is_whole:
            ids, offsets = pairs.target.ids, pairs.target.offsets
            places = _places(row_of, begin, lengths - 1)
            target[places] = np.delete(ids, offsets[1:] - 1)
            labels[places] = np.delete(ids, offsets[:-1])
        else:
            target[_places(row_of, begin + 1, lengths)] = pairs.target.ids
            target[row_of, begin] = self.start_id
            places = _places(row_of, begin, lengths)
            labels[places] = pairs.target.ids
            labels[row_of, begin + lengths] = self.end_id
        weights[_places(row_of, begin, lengths + self._added)] = 1 / tokens
        self._check(source, last, target, (row_of, begin))
        return {"source": source, "target": target}, labels, weights

    def _check(
        self,
        source: np.ndarray,
        last: tuple[np.ndarray, np.ndarray],
        target: np.ndarray,
        first: tuple[np.ndarray, np.ndarray],
    ) -> None:
        """Refuses text whose sentences a model could not tell apart.

        `last` are the places of the last tokens of the sources, `first` those of the
        first tokens of the targets.
        """
        ends = source == self.end_id
        starts = target == self.start_id
        if self.start_id == self.pad_id:  # which stands between tokens, or is padding
            starts[:, 1:] &= target[:, :-1] != self.pad_id
            starts[:, :-1] &= target[:, 1:] != self.pad_id
            starts[:, -1] = False
        if not (_are_all(ends, last) and _are_all(starts, first)):
            raise InputError(
                "packing tells sentences apart by the end_id at the end of each source "
                "and the start_id at the beginning of each target, but a sentence has "
                "none there, or another one elsewhere; train without packing"
            )


def _up_to(room: np.ndarray, most: int, plain: np.ndarray) -> np.ndarray:
    """The room of each pair, at most `most` unless its own tokens need more."""
    return np.minimum(room, np.maximum(np.resize(plain, len(room)), most))


def _are_all(marks: np.ndarray, places: tuple[np.ndarray, np.ndarray]) -> bool:
    """Whether these places are marked, and no others."""
    return bool(marks[places].all()) and np.count_nonzero(marks) == len(places[0])


def _best_fit(
    pairs: np.ndarray,
    source_lengths: np.ndarray,
    target_lengths: np.ndarray,
    length: int,
) -> TokenRows:
    """Rows of pair numbers, by best fit: the longest first, where least is left.

    Time is linear in the pairs.
    """
    longest = np.maximum(source_lengths, target_lengths)
    order = np.argsort(-longest, kind="stable")
    sides = source_lengths.tolist(), target_lengths.tolist()
    open_rows: list[list[int]] = [[] for _ in range(length + 1)]  # by what is left
    filled = 0  # bit n: whether there is a row with n positions left
    used: list[tuple[int, int]] = []
    row_of = np.empty(len(pairs), np.int32)
    for number in order.tolist():
        source, target = sides[0][number], sides[1][number]
        need = max(source, target)
        fitting = filled >> need
        if fitting:
            left = need + (fitting & -fitting).bit_length() - 1
            row = open_rows[left].pop()
            if not open_rows[left]:
                filled &= ~(1 << left)
            source += used[row][0]
            target += used[row][1]
            used[row] = source, target
        else:
            row = len(used)
            used.append((source, target))
        row_of[number] = row
        left = length - max(source, target)
        open_rows[left].append(row)
        filled |= 1 << left
    by_row = np.argsort(row_of, kind="stable")
    offsets = np.searchsorted(row_of[by_row], np.arange(len(used) + 1))
    return TokenRows(pairs[by_row], offsets)


def _begin(lengths: np.ndarray, row_of: np.ndarray) -> np.ndarray:
    """The first position of each sentence in its row; rows are in order."""
    ends = np.cumsum(lengths)
    begins = ends - lengths
    first = np.searchsorted(row_of, row_of)  # of its row
    return begins - begins[first]


def _places(
    row_of: np.ndarray, begin: np.ndarray, lengths: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Rows and positions of sentences that begin there."""
    ends = np.cumsum(lengths)
    within = np.arange(ends[-1] if len(ends) else 0)
    within -= np.repeat(ends - lengths, lengths)
    return np.repeat(row_of, lengths), np.repeat(begin, lengths) + within
