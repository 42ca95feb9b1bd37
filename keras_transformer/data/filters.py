"""Filters of sentence pairs, and the report of the pairs they drop."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Sequence

import numpy as np

_KEPT, _EMPTY, _LONG, _SHORT, _UNBALANCED = range(5)


@dataclasses.dataclass(frozen=True)
class Filters:
    """Conditions for keeping a sentence pair, in tokens of the plain segmentation.

    Args:
        max_length: the maximum number of tokens of either side, with the end token.
        min_length: the minimum number of tokens of either side, without the end token.
        max_ratio: the largest length ratio of the sides, in either direction; None for
            any.
        unique: whether to drop duplicates, compared after the tokenizer's
            normalization; `SeenPairs` remembers 8 bytes per pair.
    """

    max_length: int
    min_length: int = 1
    max_ratio: float | None = None
    unique: bool = False

    def reasons(
        self,
        filled: np.ndarray,
        source_lengths: np.ndarray,
        target_lengths: np.ndarray,
        lengths_without_prefix: np.ndarray | None = None,
    ) -> np.ndarray:
        """The number of the first filter that drops each pair; 0 where it is kept.

        Args:
            filled: whether neither side is empty, see `Tokenizer.is_empty`, (pairs,)
                bool.
            source_lengths: tokens without the end token, (pairs,).
            target_lengths: see `source_lengths`.
            lengths_without_prefix: tokens of the sources without their prefix, which
                counts for `max_length` alone; None where they have none.
        """
        is_long = np.maximum(source_lengths, target_lengths) + 1 > self.max_length
        if lengths_without_prefix is not None:
            source_lengths = lengths_without_prefix
        longest = np.maximum(source_lengths, target_lengths)
        shortest = np.minimum(source_lengths, target_lengths)
        ratio = np.inf if self.max_ratio is None else self.max_ratio
        unbalanced = longest > np.maximum(shortest, 1) * ratio
        return np.select(
            [
                ~np.asarray(filled, bool),
                is_long,
                shortest < self.min_length,
                unbalanced,
            ],
            [_EMPTY, _LONG, _SHORT, _UNBALANCED],
            _KEPT,
        )

    @property
    def counts_tokens(self) -> bool:
        """Whether a filter but that of `max_length` counts tokens."""
        return self.min_length > 1 or self.max_ratio is not None

    def report(self, reasons: np.ndarray, space_marks: int) -> CorpusReport:
        """The report of the pairs with these `reasons`."""
        counts = np.bincount(reasons, minlength=5).tolist()
        return CorpusReport(
            kept=counts[_KEPT],
            empty=counts[_EMPTY],
            too_long=counts[_LONG],
            max_length=self.max_length,
            space_marks=space_marks,
            too_short=counts[_SHORT],
            min_length=self.min_length,
            unbalanced=counts[_UNBALANCED],
            max_ratio=self.max_ratio,
        )


@dataclasses.dataclass(frozen=True)
class CorpusReport:
    """The numbers of kept and dropped pairs of a corpus.

    Args:
        kept: pairs that are kept.
        empty: pairs dropped because a side holds only white space or characters that
            the tokenizer's normalization removes.
        too_long: pairs dropped because a side has more than `max_length` tokens.
        max_length: in tokens, with the end token.
        space_marks: lines of either side with U+2581, which becomes a space.
        too_short: pairs dropped because a side has fewer than `min_length` tokens.
        min_length: in tokens, without the end token.
        unbalanced: pairs dropped because their length ratio is above `max_ratio`.
        max_ratio: None for any.
        duplicates: pairs dropped because an earlier one is equal.
    """

    kept: int
    empty: int
    too_long: int
    max_length: int
    space_marks: int
    too_short: int = 0
    min_length: int = 1
    unbalanced: int = 0
    max_ratio: float | None = None
    duplicates: int = 0

    @classmethod
    def total(cls, reports: Sequence[CorpusReport]) -> CorpusReport:
        """One report of several texts under the same filters."""
        return functools.reduce(operator.add, reports)

    def __add__(self, other: CorpusReport) -> CorpusReport:
        counts = ("kept", "empty", "too_long", "space_marks", "too_short")
        sums = {
            name: getattr(self, name) + getattr(other, name)
            for name in (*counts, "unbalanced", "duplicates")
        }
        return dataclasses.replace(self, **sums)

    def without_duplicates(self, duplicates: int) -> CorpusReport:
        """The report after `count` kept pairs were dropped as duplicates."""
        return dataclasses.replace(
            self,
            kept=self.kept - duplicates,
            duplicates=self.duplicates + duplicates,
        )

    def __str__(self) -> str:
        dropped = {
            "empty": self.empty,
            f"longer than {self.max_length} tokens": self.too_long,
            f"shorter than {self.min_length} tokens": self.too_short,
            f"with a length ratio above {self.max_ratio}": self.unbalanced,
            "duplicates": self.duplicates,
        }
        text = f"{self.kept} pairs kept, {sum(dropped.values())} dropped"
        reasons = [f"{count} {why}" for why, count in dropped.items() if count]
        if reasons:
            text += f": {', '.join(reasons)}"
        if self.space_marks:
            text += f"; U+2581 became a space in {self.space_marks} lines"
        return text


class SeenPairs:
    """A growing set of 64-bit hashes of the pairs of a stream.

    The hashes lie in sorted arrays, each more than twice as long as the next; 8 bytes
    per pair. Among n pairs about n² / 2^65 are mistaken for another: none of ten
    million pairs, and one in thirty streams of a billion.
    """

    def __init__(self) -> None:
        self._runs: list[np.ndarray] = []

    def add(self, hashes: np.ndarray) -> np.ndarray:
        """Adds the pairs; returns which are new, (pairs,) bool.

        Args:
            hashes: the hash of each pair, (pairs,) uint64.
        """
        new = np.zeros(len(hashes), bool)
        new[np.unique(hashes, return_index=True)[1]] = True
        for run in self._runs:
            places = np.searchsorted(run, hashes)
            new &= run[np.minimum(places, len(run) - 1)] != hashes
        if new.any():
            self._runs.append(np.sort(hashes[new]))
        while len(self._runs) > 1 and len(self._runs[-2]) < 2 * len(self._runs[-1]):
            last, before = self._runs.pop(), self._runs.pop()
            self._runs.append(np.sort(np.concatenate([before, last]), kind="stable"))
        return new
