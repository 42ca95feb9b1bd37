"""Corpus files to sentence pairs to token ids; says what it drops and why.

Nothing else in the package reads corpus files.
"""

from __future__ import annotations

import dataclasses
import gzip
import zlib
from collections.abc import Iterable
from collections.abc import Sequence
from itertools import chain
from pathlib import Path

import numpy as np

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer import count_space_marks
from keras_transformer.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_LINES_AT_ONCE = 10_000  # lists of ids take nine times the memory of an array


@dataclasses.dataclass(frozen=True)
class ParallelText:
    """Sentence pairs: line i of `target` translates line i of `source`."""

    source: list[str]
    target: list[str]

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source lines do not pair with {len(self.target)} "
                f"target lines; give one translation for each line"
            )

    def __len__(self) -> int:
        return len(self.source)


@dataclasses.dataclass(frozen=True, eq=False)
class TokenRows:
    """Rows of ids of any lengths, end to end in one array.

    Args:
        ids: all rows, (number of ids,) int32.
        offsets: row i is `ids[offsets[i]:offsets[i + 1]]`, (rows + 1,) int64.
    """

    ids: np.ndarray
    offsets: np.ndarray

    @classmethod
    def from_lists(cls, rows: Sequence[Sequence[int]]) -> TokenRows:
        """Copies rows of ids; later changes to `rows` do not matter."""
        lengths = np.fromiter((len(row) for row in rows), np.int64, len(rows))
        ids = np.fromiter(chain.from_iterable(rows), np.int32, int(lengths.sum()))
        return cls(ids, _offsets(lengths))

    @classmethod
    def concatenate(cls, parts: Sequence[TokenRows]) -> TokenRows:
        """All rows of all parts, in order."""
        lengths = np.concatenate([part.lengths for part in parts])
        return cls(np.concatenate([part.ids for part in parts]), _offsets(lengths))

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, row: int) -> np.ndarray:
        row = range(len(self))[row]
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @property
    def lengths(self) -> np.ndarray:
        """The number of ids of each row, (rows,) int64."""
        return np.diff(self.offsets)

    def take(self, rows: np.ndarray) -> TokenRows:
        """The rows with these numbers, in this order."""
        starts = self.offsets[rows]
        lengths = self.offsets[np.add(rows, 1)] - starts
        offsets = _offsets(lengths)
        positions = np.arange(offsets[-1]) + np.repeat(starts - offsets[:-1], lengths)
        return TokenRows(self.ids[positions], offsets)


@dataclasses.dataclass(frozen=True, eq=False)
class EncodedPairs:
    """Sentence pairs as ids, without start, end and padding."""

    source: TokenRows
    target: TokenRows

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source rows do not pair with {len(self.target)} "
                f"target rows; give one translation for each row"
            )

    def __len__(self) -> int:
        return len(self.source)

    def take(self, rows: np.ndarray) -> EncodedPairs:
        """The pairs with these numbers, in this order."""
        return EncodedPairs(self.source.take(rows), self.target.take(rows))


@dataclasses.dataclass(frozen=True)
class CorpusReport:
    """What became of the pairs of a corpus.

    Args:
        kept: pairs that remain.
        empty: pairs dropped because a side holds nothing but white space.
        too_long: pairs dropped because a side has more than `max_length` tokens.
        max_length: in tokens, with the end token.
        space_marks: lines of either side with U+2581, which reads as a space.
    """

    kept: int
    empty: int
    too_long: int
    max_length: int
    space_marks: int

    def __str__(self) -> str:
        text = f"{self.kept} pairs kept, {self.empty + self.too_long} dropped"
        reasons = []
        if self.empty:
            reasons.append(f"{self.empty} empty")
        if self.too_long:
            reasons.append(f"{self.too_long} longer than {self.max_length} tokens")
        if reasons:
            text += f": {', '.join(reasons)}"
        if self.space_marks:
            text += f"; U+2581 became a space in {self.space_marks} lines"
        return text


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a UTF-8 file, gzipped or not.

    Only `\n` ends a line, so that no other character of the text can shift source
    against target; a byte order mark and one `\r` before each `\n` are dropped.

    Raises:
        InputError: where the file is missing, empty, cut off or not UTF-8.
    """
    data = _read(path)
    if not data:
        raise InputError(f"{path} is empty; give a file with one sentence a line")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8 ({error.reason}); convert the file to "
            f"UTF-8"
        ) from None
    lines = text.removesuffix("\n").split("\n")
    return [line.removesuffix("\r") for line in lines]


def read_parallel(
    sources: Sequence[str | Path], targets: Sequence[str | Path]
) -> ParallelText:
    """Reads pairs of files with equal numbers of lines, one after the other.

    Raises:
        InputError: where a file cannot be read, or two files do not match.
    """
    if len(sources) != len(targets):
        raise InputError(
            f"{len(sources)} source files do not pair with {len(targets)} target "
            f"files; give one target file for each source file"
        )
    text = ParallelText([], [])
    for source, target in zip(sources, targets, strict=True):
        source_lines, target_lines = read_lines(source), read_lines(target)
        if len(source_lines) != len(target_lines):
            raise InputError(
                f"{source} has {len(source_lines)} lines but {target} has "
                f"{len(target_lines)}; line i of one must translate line i of the other"
            )
        text.source.extend(source_lines)
        text.target.extend(target_lines)
    return text


def read_tsv(paths: Sequence[str | Path]) -> ParallelText:
    """Reads files of `source<TAB>target` lines, one after the other.

    Raises:
        InputError: where a file cannot be read, or a line has not two columns.
    """
    text = ParallelText([], [])
    for path in paths:
        for number, line in enumerate(read_lines(path), 1):
            columns = line.split("\t")
            if len(columns) != 2:
                raise InputError(
                    f"{path}, line {number}: expected 2 columns (source, tab, target), "
                    f"found {len(columns)}; mend or remove the line"
                )
            text.source.append(columns[0])
            text.target.append(columns[1])
    return text


def encode_pairs(
    text: ParallelText,
    source_tokenizer: Tokenizer,
    target_tokenizer: Tokenizer,
    max_length: int,
) -> tuple[EncodedPairs, CorpusReport]:
    """Sentence pairs as ids, without the pairs that no batch should hold.

    Args:
        text: the sentence pairs.
        source_tokenizer: of the source.
        target_tokenizer: of the target; the same for a shared vocabulary.
        max_length: the most tokens of either side, with the end token.

    Returns:
        The pairs that remain, in order, and the report of what was dropped.

    Raises:
        InputError: where no pair remains.

    Example:

    >>> from keras_transformer.data.corpus import ParallelText
    >>> from keras_transformer.data.corpus import encode_pairs
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> text = ParallelText(["a b c", "", "a a a a a a"], ["b", "c", "a"])
    >>> tokenizer = Tokenizer.train(["a b c"], vocabulary_size=264)
    >>> pairs, report = encode_pairs(text, tokenizer, tokenizer, max_length=8)
    >>> print(report)
    1 pairs kept, 2 dropped: 1 empty, 1 longer than 8 tokens
    """
    parts, empty, too_long = [], 0, 0
    for start in range(0, len(text), _LINES_AT_ONCE):
        chunk = slice(start, start + _LINES_AT_ONCE)
        filled = [bool(line.strip()) for line in text.source[chunk]]
        for row, line in enumerate(text.target[chunk]):
            filled[row] &= bool(line.strip())
        part = EncodedPairs(
            _encode(source_tokenizer, text.source[chunk], start + 1),
            _encode(target_tokenizer, text.target[chunk], start + 1),
        )
        longest = np.maximum(part.source.lengths, part.target.lengths) + 1
        kept = np.array(filled) & (longest <= max_length)
        empty += filled.count(False)
        too_long += sum(filled) - int(kept.sum())
        parts.append(part.take(np.flatnonzero(kept)))
    report = CorpusReport(
        kept=sum(map(len, parts)),
        empty=empty,
        too_long=too_long,
        max_length=max_length,
        space_marks=count_space_marks(chain(text.source, text.target)),
    )
    if not report.kept:
        raise InputError(f"the corpus has no pair to use ({report}); check its files")
    source = TokenRows.concatenate([part.source for part in parts])
    target = TokenRows.concatenate([part.target for part in parts])
    return EncodedPairs(source, target), report


def _read(path: str | Path) -> bytes:
    try:
        data = Path(path).read_bytes()
        if data.startswith(_GZIP_MAGIC):
            return gzip.decompress(data)
    except (EOFError, gzip.BadGzipFile, zlib.error):
        raise InputError(
            f"{path} is a gzip file that is cut off or damaged; copy it again"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; check the path"
        ) from None
    return data


def _encode(tokenizer: Tokenizer, lines: Sequence[str], first_line: int) -> TokenRows:
    return TokenRows.from_lists(tokenizer.encode(lines, first_line=first_line))


def _offsets(lengths: Iterable[int]) -> np.ndarray:
    return np.concatenate([[0], np.cumsum(lengths, dtype=np.int64)])
