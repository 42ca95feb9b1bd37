"""Corpus files to sentence pairs, whole or as a stream that is never held whole.

Nothing else in the package reads corpus files.
"""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.parallel_text import CHUNK
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError

#: The readers of two files of lines, or of one of `source<TAB>target` lines.
Shard = tuple[LineReader, ...]


@dataclasses.dataclass(frozen=True)
class CorpusFiles:
    """The files of one corpus: of lines in pairs, or of `source<TAB>target` lines.

    Args:
        source: files of lines, gzipped or not.
        target: their translations, in the same order.
        tsv: or instead of these, files with both.

    Raises:
        InputError: where the numbers of files differ.
    """

    source: tuple[Path, ...] = ()
    target: tuple[Path, ...] = ()
    tsv: tuple[Path, ...] = ()

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source files do not pair with {len(self.target)} "
                f"target files; give one target file for each source file"
            )

    def __str__(self) -> str:
        return ", ".join(str(path) for path in self.source or self.tsv)

    @property
    def paths(self) -> list[Path]:
        """All files, each source before its target."""
        return [Path(path) for shard in self._shard_paths() for path in shard]

    def shards(self) -> list[Shard]:
        """Readers that have not begun, for `read_shards`."""
        return [tuple(map(LineReader, shard)) for shard in self._shard_paths()]

    def _shard_paths(self) -> list[tuple[Path, ...]]:
        pairs = zip(self.source, self.target, strict=True)
        return [*pairs, *((path,) for path in self.tsv)]


def read_shards(shards: Iterable[Shard], chunk: int = CHUNK) -> Iterator[ParallelText]:
    """The pairs of one shard after the other, at most `chunk` at once.

    Raises:
        InputError: where a file cannot be read, files do not match, or a line has not
            two columns; as late as the stream meets it.
    """
    for shard in shards:
        with contextlib.ExitStack() as stack:
            for reader in shard:
                stack.enter_context(reader)
            read = _read_columns if len(shard) == 1 else _read_pair
            while len(text := read(*shard, chunk)):
                yield text


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a UTF-8 file, gzipped or not.

    Only `\n` ends a line, so that no other character of the text can shift source
    against target; a byte order mark and one `\r` before each `\n` are dropped.

    Raises:
        InputError: where the file is missing, empty, cut off or not UTF-8.
    """
    lines = []
    with LineReader(path) as reader:
        while some := reader.read(CHUNK):
            lines += some
    return lines


def read_together(paths: Sequence[str | Path]) -> list[list[str]]:
    """The lines of several files, each of which has a line for every one of the first.

    Raises:
        InputError: where a file cannot be read, or has more or fewer lines.
    """
    texts = list(map(read_lines, paths))
    for path, lines in zip(paths, texts, strict=True):
        if len(lines) != len(texts[0]):
            raise _unequal(paths[0], len(texts[0]), path, len(lines))
    return texts


def read_parallel(
    sources: Sequence[str | Path], targets: Sequence[str | Path]
) -> ParallelText:
    """Reads pairs of files with equal numbers of lines, one after the other.

    Raises:
        InputError: where a file cannot be read, or two files do not match.
    """
    files = CorpusFiles(source=tuple(sources), target=tuple(targets))
    return ParallelText.concatenate(read_shards(files.shards()))


def read_tsv(paths: Sequence[str | Path]) -> ParallelText:
    """Reads files of `source<TAB>target` lines, one after the other.

    Raises:
        InputError: where a file cannot be read, or a line has not two columns.
    """
    files = CorpusFiles(tsv=tuple(paths))
    return ParallelText.concatenate(read_shards(files.shards()))


def _read_pair(source: LineReader, target: LineReader, chunk: int) -> ParallelText:
    source_lines, target_lines = source.read(chunk), target.read(chunk)
    if len(source_lines) != len(target_lines):
        raise _unequal(source.path, source.count(), target.path, target.count())
    return ParallelText(source_lines, target_lines)


def _unequal(
    path: str | Path, lines: int, other_path: str | Path, other_lines: int
) -> InputError:
    return InputError(
        f"{path} has {lines} lines but {other_path} has {other_lines}; line i of one "
        f"must belong to line i of the other"
    )


def _read_columns(reader: LineReader, chunk: int) -> ParallelText:
    first = reader.lines + 1
    rows = [line.split("\t") for line in reader.read(chunk)]
    for number, columns in enumerate(rows, first):
        if len(columns) != 2:
            raise InputError(
                f"{reader.path}, line {number}: expected 2 columns (source, tab, "
                f"target), found {len(columns)}; mend or remove the line"
            )
    return ParallelText([row[0] for row in rows], [row[1] for row in rows])
