"""Span corruption: text with gaps as the source, what stood in the gaps as the target.

T5's objective of pretraining, from text in one language.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

_STREAM = 4  # of random numbers, beside those of batches and of augmentation


def sentinel_symbols(count: int) -> list[str]:
    """The spellings `<extra_id_0>`, `<extra_id_1>`, ... for `Tokenizer.train`.

    They go to its `reserved_symbols`: ids that no text has.
    """
    return [f"<extra_id_{index}>" for index in range(count)]


def num_sentinels(max_length: int, rate: float = 0.15, mean_length: float = 3.0) -> int:
    """The sentinels that rows of up to `max_length` ids need.

    Args:
        max_length: the most ids of a row, at least 2.
        rate: see `corrupt_spans`.
        mean_length: see `corrupt_spans`.

    Example:

    >>> from keras_transformer.data.span_corruption import num_sentinels
    >>> num_sentinels(512)
    27
    """
    _, num_gaps = _counts(np.array(max_length), rate, mean_length)
    return int(num_gaps) + 1


def corrupted_lengths(
    lengths: np.ndarray, rate: float = 0.15, mean_length: float = 3.0
) -> tuple[np.ndarray, np.ndarray]:
    """The ids that source and target will have, for rows of so many ids.

    They depend on the length of a row alone, not on where its gaps are.

    Args:
        lengths: ids of each row, at least 2, (rows,).
        rate: see `corrupt_spans`.
        mean_length: see `corrupt_spans`.

    Returns:
        Two arrays, (rows,) int32.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.data.span_corruption import corrupted_lengths
    >>> corrupted_lengths(np.array([10, 512]), rate=0.3, mean_length=2.0)
    (array([  9, 435], dtype=int32), array([  6, 232], dtype=int32))
    """
    num_hidden, num_gaps = _counts(lengths, rate, mean_length)
    source = lengths - num_hidden + num_gaps
    target = num_hidden + num_gaps + 1
    return source.astype(np.int32), target.astype(np.int32)


def _counts(
    lengths: np.ndarray, rate: float, mean_length: float
) -> tuple[np.ndarray, np.ndarray]:
    """The ids that rows of these lengths lose, and in how many gaps."""
    num_hidden = np.minimum(np.maximum(np.rint(rate * lengths), 1), lengths - 1)
    most = lengths - num_hidden + 1
    num_gaps = np.minimum(np.maximum(np.rint(num_hidden / mean_length), 1), most)
    return num_hidden.astype(np.int32), num_gaps.astype(np.int32)


def corrupt_spans(
    ids: Sequence[int],
    sentinels: Sequence[int],
    random: np.random.Generator,
    rate: float = 0.15,
    mean_length: float = 3.0,
) -> tuple[list[int], list[int]]:
    """A row of ids with gaps, and what stood in them.

    Each gap is one sentinel in the source. The target has the same sentinel before the
    ids of the gap, and one more at its end. Gaps never touch each other.

    Args:
        ids: one row, of at least two ids.
        sentinels: the ids of the sentinels, in their order.
        random: draws the lengths of gaps and of what is between them.
        rate: the share of ids that are left out, at least one of a row.
        mean_length: the mean number of ids in a gap.

    Returns:
        The ids of source and target.

    Raises:
        InputError: for a row that is too short, or more gaps than sentinels.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.data.span_corruption import corrupt_spans
    >>> random = np.random.default_rng(5)
    >>> corrupt_spans(range(10, 20), [90, 91, 92], random, rate=0.3, mean_length=2.0)
    ([90, 12, 13, 14, 15, 16, 91, 18, 19], [90, 10, 11, 91, 17, 92])

    Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 3.1.4.
    """
    ids = list(ids)
    if len(ids) < 2:
        raise InputError(
            f"a row of {len(ids)} tokens cannot have a gap; leave out rows of fewer "
            f"than two"
        )
    counts = _counts(np.array(len(ids)), rate, mean_length)
    num_hidden, num_gaps = map(int, counts)
    num_seen = len(ids) - num_hidden
    if num_gaps >= len(sentinels):
        raise InputError(
            f"a row of {len(ids)} tokens gets {num_gaps} gaps, which need "
            f"{num_gaps + 1} sentinels, and there are {len(sentinels)}; give more of "
            f"them, or a larger mean_length"
        )
    hidden = _parts(num_hidden, num_gaps, random)
    # Before the first gap and after the last one there may be nothing.
    seen = _parts(num_seen + 2, num_gaps + 1, random)
    seen[0] -= 1
    source, target, place = [], [], 0
    for sentinel, before, length in zip(sentinels, seen[:-1], hidden, strict=False):
        source += [*ids[place : place + before], sentinel]
        place += before
        target += [sentinel, *ids[place : place + length]]
        place += length
    return source + ids[place:], [*target, sentinels[num_gaps]]


def _parts(total: int, count: int, random: np.random.Generator) -> list[int]:
    """Random sizes of `count` parts of a total, each at least 1."""
    cuts = random.choice(total - 1, count - 1, replace=False) + 1
    ends = [0, *sorted(cuts.tolist()), total]
    return [end - begin for begin, end in pairwise(ends)]


@dataclasses.dataclass(frozen=True)
class SpanCorruption:
    """A data source of pairs for pretraining, from rows of text in one language.

    For the `span_corruption` of `TokenBatches`, which draws other gaps each time that a
    row is used. Called with texts, it gives one pass over them: another seed gives
    other gaps.

    Args:
        tokenizer: has `sentinel_symbols` among its `reserved_symbols`.
        num_sentinels: how many of them.
        rate: the share of tokens that are left out.
        mean_length: the mean number of tokens in a gap.

    Raises:
        InputError: where the tokenizer lacks a sentinel, or a number cannot be.

    Example:

    >>> from keras_transformer.data import SpanCorruption
    >>> from keras_transformer.data import Tokenizer
    >>> from keras_transformer.data.span_corruption import sentinel_symbols
    >>> tokenizer = Tokenizer.train(
    ...     ["low lower lowest"] * 9, 280, reserved_symbols=sentinel_symbols(4)
    ... )
    >>> pairs = SpanCorruption(tokenizer, num_sentinels=4)(["lower low"], seed=(1,))
    >>> len(pairs)
    1

    Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 3.3.4.
    """

    tokenizer: Tokenizer
    num_sentinels: int = 100
    rate: float = 0.15
    mean_length: float = 3.0

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise InputError(f"the rate {self.rate} must be between 0 and 1")
        if not self.mean_length >= 1:
            raise InputError(f"the mean_length {self.mean_length} must be at least 1")
        self.sentinels()

    def sentinels(self) -> list[int]:
        """The ids of the sentinels, in their order."""
        return self.tokenizer.ids_of(sentinel_symbols(self.num_sentinels))

    def __call__(self, texts: Sequence[str], seed: Sequence[int]) -> EncodedPairs:
        """Sources and targets of the texts, in their order.

        Args:
            texts: one text a row; those of fewer than two tokens are left out.
            seed: integers from 0. The same seed gives the same gaps.

        Raises:
            InputError: where a text needs more sentinels than there are.
        """
        rows = [ids for ids in self.tokenizer.encode(texts) if len(ids) > 1]
        pairs = self._drawn(rows, np.random.default_rng(tuple(seed)))
        return dataclasses.replace(pairs, special_ids=self.tokenizer.special_ids)

    def corrupted(self, pairs: EncodedPairs, seed: Sequence[int]) -> EncodedPairs:
        """The sources with gaps, and as targets what stood in them.

        Args:
            pairs: of whose targets nothing is used.
            seed: integers from 0.

        Raises:
            InputError: where a row is too short, or needs more sentinels than there
                are.
        """
        random = np.random.default_rng((*seed, _STREAM))
        drawn = self._drawn(pairs.source.lists(), random)
        return dataclasses.replace(drawn, special_ids=pairs.special_ids)

    def lengths(self, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """The tokens of source and target for rows of so many; `corrupted_lengths`."""
        return corrupted_lengths(rows, self.rate, self.mean_length)

    def _drawn(
        self, rows: Sequence[Sequence[int]], random: np.random.Generator
    ) -> EncodedPairs:
        sentinels = self.sentinels()
        pairs = [
            corrupt_spans(ids, sentinels, random, self.rate, self.mean_length)
            for ids in rows
        ]
        return EncodedPairs(
            TokenRows.from_lists([source for source, _ in pairs]),
            TokenRows.from_lists([target for _, target in pairs]),
        )
