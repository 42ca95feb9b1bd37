"""Span corruption: text with gaps as the source, what stood in the gaps as the target.

T5's objective of pretraining, from text in one language.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError


def sentinel_symbols(count: int) -> list[str]:
    """The spellings `<extra_id_0>`, `<extra_id_1>`, ... for `Tokenizer.train`.

    They go to its `reserved_symbols`: ids that no text has.
    """
    return [f"<extra_id_{index}>" for index in range(count)]


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
    num_hidden = min(max(round(rate * len(ids)), 1), len(ids) - 1)
    num_seen = len(ids) - num_hidden
    num_gaps = min(max(round(num_hidden / mean_length), 1), num_seen + 1)
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
    cuts = np.sort(random.choice(total - 1, count - 1, replace=False)) + 1
    return [int(size) for size in np.diff(cuts, prepend=0, append=total)]


@dataclasses.dataclass(frozen=True)
class SpanCorruption:
    """A data source of pairs for pretraining, from rows of text in one language.

    An object is called once for each pass over the text: another seed gives other gaps.

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
        random, sentinels = np.random.default_rng(tuple(seed)), self.sentinels()
        pairs = [
            corrupt_spans(ids, sentinels, random, self.rate, self.mean_length)
            for ids in self.tokenizer.encode(texts)
            if len(ids) > 1
        ]
        return EncodedPairs(
            TokenRows.from_lists([source for source, _ in pairs]),
            TokenRows.from_lists([target for _, target in pairs]),
            self.tokenizer.special_ids,
        )
