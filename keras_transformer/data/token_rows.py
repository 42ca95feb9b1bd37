"""Rows of token ids of different lengths, in memory or memory-mapped."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from itertools import chain
from itertools import pairwise

import numpy as np

from keras_transformer.data.checksums import CheckedBlocks
from keras_transformer.errors import InputError


@dataclasses.dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of ids, end to end in one array.

    Args:
        ids: the concatenated rows, (number of ids,), of any integer dtype.
        offsets: row i is `ids[offsets[i]:offsets[i + 1]]`, (rows + 1,) int64.
        blocks: verifies memory-mapped `ids` as their rows are read; None where there is
            nothing to verify.
    """

    ids: np.ndarray
    offsets: np.ndarray
    blocks: CheckedBlocks | None = None

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> TokenRows:
        """Copies rows of ids as int32; later changes to `rows` have no effect."""
        lengths = np.fromiter(map(len, rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(ids, _offsets(lengths))

    @classmethod
    def concatenate(cls, parts: Sequence[TokenRows]) -> TokenRows:
        """All rows of all parts, in order."""
        for part in parts:
            part.check()
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        row = range(len(self))[row]
        if self.blocks is not None:
            self.blocks.check(self.offsets[row : row + 1], self.offsets[row + 1 :][:1])
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    def __iter__(self) -> Iterator[np.ndarray]:
        return map(self.__getitem__, range(len(self)))

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each row, (rows,) int32."""
        lengths = np.empty(len(self), np.int32)
        np.subtract(
            self.offsets[1:], self.offsets[:-1], out=lengths, casting="same_kind"
        )
        return lengths

    def lengths_of(self, rows: np.ndarray) -> np.ndarray:
        """The lengths of the rows with these numbers, without reading the rows."""
        return self.offsets[np.add(rows, 1)] - self.offsets[rows]

    def take(self, rows: np.ndarray) -> TokenRows:
        """The rows with these numbers, in this order."""
        starts, lengths = self.offsets[rows], self.lengths_of(rows)
        if self.blocks is not None:
            self.blocks.check(starts, starts + lengths)
        offsets = _offsets(lengths)
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return TokenRows(self.ids[positions], offsets)

    def check(self) -> None:
        """Verifies all of `ids`; `InputError` where they are damaged."""
        if self.blocks is not None:
            self.blocks.check_all()

    def lists(self) -> list[list[int]]:
        """The rows as lists of Python's integers."""
        self.check()
        ids = self.ids.tolist()
        return [ids[start:end] for start, end in pairwise(self.offsets.tolist())]


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Sentence pairs as ids, without padding, and mostly without start and end.

    Args:
        source: the ids of each source.
        target: the ids of its translation.
        special_ids: those of their tokenizer, see `Tokenizer`; None where not known.
        is_whole: whether the rows have all that stands around a text, as those of a
            multilingual model do: the source its end and languages, the target the
            first input of the decoder, then the labels, the end among them.
    """

    source: TokenRows
    target: TokenRows
    special_ids: Mapping[str, int] | None = None
    is_whole: bool = False

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source rows do not pair with {len(self.target)} "
                f"target rows; give one translation for each row"
            )

    @classmethod
    def concatenate(cls, parts: Sequence[EncodedPairs]) -> EncodedPairs:
        """All pairs of all parts, in order.

        Raises:
            InputError: where their known special ids differ, or only some of them are
                whole.
        """
        if len({part.is_whole for part in parts}) > 1:
            raise InputError(
                "pairs with languages and pairs without cannot be combined; encode all "
                "of them with languages, or none"
            )
        dicts = [part.special_ids for part in parts if part.special_ids is not None]
        for ids in dicts:
            if ids != dicts[0]:
                raise InputError(
                    f"pairs with the special ids {dicts[0]} and {ids} cannot be "
                    "combined; encode all of them with one tokenizer"
                )
        return cls(
            TokenRows.concatenate([part.source for part in parts]),
            TokenRows.concatenate([part.target for part in parts]),
            next(iter(dicts), None),
            any(part.is_whole for part in parts),
        )

    def __len__(self) -> int:
        return len(self.source)

    @property
    def fault(self) -> InputError | None:
        """The fault of the memory-mapped files; None while none is known."""
        blocks = (self.source.blocks, self.target.blocks)
        faults = (side.fault for side in blocks if side is not None)
        return next((fault for fault in faults if fault is not None), None)

    def take(self, rows: np.ndarray) -> EncodedPairs:
        """The pairs with these numbers, in this order."""
        source, target = self.source.take(rows), self.target.take(rows)
        return EncodedPairs(source, target, self.special_ids, self.is_whole)


def _offsets(lengths: np.ndarray) -> np.ndarray:
    offsets = np.zeros(len(lengths) + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    return offsets
