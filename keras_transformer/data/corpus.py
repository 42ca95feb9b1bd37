"""Corpus readers: files to sentence pairs, in memory or as a stream.

No other module reads corpus files.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import os
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.data.columns import FORMATS
from keras_transformer.data.columns import Columns
from keras_transformer.data.columns import columns_fault
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.pair_files import csv_pairs
from keras_transformer.data.pair_files import jsonl_pairs
from keras_transformer.data.pair_files import tmx_pairs
from keras_transformer.data.pair_files import tsv_pairs
from keras_transformer.data.parallel_text import CHUNK
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.parquet import ParquetReader
from keras_transformer.errors import InputError

#: For each format its reader class, and the function that yields its pairs.
_FORMATS: dict[str, tuple[type[LineReader], Callable[..., Iterator[ParallelText]]]] = {
    "tsv": (LineReader, tsv_pairs),
    "csv": (LineReader, csv_pairs),
    "jsonl": (LineReader, jsonl_pairs),
    "parquet": (ParquetReader, ParquetReader.pairs),
    "tmx": (LineReader, tmx_pairs),
}


@dataclasses.dataclass(frozen=True)
class Shard:
    """Files that are read together: two of lines, or one of pairs.

    Args:
        readers: unopened readers.
        format: the format of one file; None for two files of lines.
        columns: the columns of one file; None for the default of the format.
    """

    readers: tuple[LineReader, ...]
    format: str | None = None
    columns: Columns | None = None

    def __iter__(self) -> Iterator[LineReader]:
        return iter(self.readers)

    @property
    def settings(self) -> list[Any]:
        """Its paths, and how they are read where that is not as in version 1."""
        paths: list[Any] = [os.path.abspath(reader.path) for reader in self.readers]
        if self.format not in (None, "tsv") or self.columns:
            columns = self.columns and list(self.columns)  # as JSON returns it
            paths.append({"format": self.format, "columns": columns})
        return paths

    def pairs(self, chunk: int) -> Iterator[ParallelText]:
        """Chunks of at most `chunk` pairs; see `read_shards`."""
        with contextlib.ExitStack() as stack:
            for reader in self.readers:
                stack.enter_context(reader)
            if self.format is None:
                source, target = self.readers
                yield from _line_pairs(source, target, chunk)
            else:
                (reader,) = self.readers
                find = _FORMATS[self.format][1]
                yield from find(reader, self.columns, chunk)


@dataclasses.dataclass(frozen=True)
class CorpusFiles:
    """The files of one corpus: of lines in pairs, or of pairs.

    Args:
        source: files of lines, compressed or not.
        target: their translations, in the same order.
        tsv: or instead of these, files of `source<TAB>target` lines.
        csv: or of comma-separated cells, quoted where necessary.
        jsonl: or of JSON objects, one per line.
        parquet: or of Parquet.
        tmx: or translation memories.
        columns: the two columns of each such file; see `columns_fault`. None for the
            first two of TSV, and for the names source and target in other formats.

    Raises:
        InputError: where the numbers of files differ, or the columns are not valid.
    """

    source: tuple[Path, ...] = ()
    target: tuple[Path, ...] = ()
    tsv: tuple[Path, ...] = ()
    csv: tuple[Path, ...] = ()
    jsonl: tuple[Path, ...] = ()
    parquet: tuple[Path, ...] = ()
    tmx: tuple[Path, ...] = ()
    columns: Columns | None = None

    def __post_init__(self) -> None:
        if len(self.source) != len(self.target):
            raise InputError(
                f"{len(self.source)} source files do not pair with {len(self.target)} "
                f"target files; give one target file for each source file"
            )
        for format, paths in self._tables():
            if paths and (fault := columns_fault(format, self.columns)):
                raise InputError(fault)

    def __str__(self) -> str:
        tables = itertools.chain.from_iterable(paths for _, paths in self._tables())
        return ", ".join(str(path) for path in self.source or tables)

    @property
    def paths(self) -> list[Path]:
        """All files, each source before its target."""
        return [Path(reader.path) for shard in self.shards() for reader in shard]

    def shards(self) -> list[Shard]:
        """The unopened shards, for `read_shards`."""
        pairs = zip(self.source, self.target, strict=True)
        shards = [
            Shard(tuple(LineReader(path, refuses_nul=True) for path in pair))
            for pair in pairs
        ]
        for format, paths in self._tables():
            reader = _FORMATS[format][0]
            shards += [
                Shard((reader(path, refuses_nul=True),), format, self.columns)
                for path in paths
            ]
        return shards

    def _tables(self) -> list[tuple[str, tuple[Path, ...]]]:
        return [(format, getattr(self, format)) for format in FORMATS]


def read_shards(shards: Iterable[Shard], chunk: int = CHUNK) -> Iterator[ParallelText]:
    """Chunks of at most `chunk` pairs, shard after shard.

    Raises:
        InputError: where a file cannot be read, files do not match, or lines are
            faulty, all of which it names; raised when the stream reaches the first.
    """
    for shard in shards:
        yield from filter(len, shard.pairs(chunk))


def read_lines(path: str | Path) -> list[str]:
    r"""The lines of a UTF-8 file, compressed (gzip, bzip2, xz, zstd) or not.

    Only `\n` ends a line, so that no other character of the text can shift source
    against target; a byte order mark and one `\r` before each `\n` are dropped.

    Raises:
        InputError: where the file is missing, empty, cut off or not UTF-8.
    """
    return list(stream_lines(path))


def stream_lines(path: str | Path, refuses_nul: bool = False) -> Iterator[str]:
    """The lines of `read_lines` one by one, never all in memory.

    Args:
        path: the file.
        refuses_nul: whether a NUL in a line is a fault, as in a corpus.

    Raises:
        InputError: see `read_lines`.
    """
    with LineReader(path, refuses_nul) as reader:
        while block := reader.read(CHUNK):
            yield from block


def read_together(paths: Sequence[str | Path]) -> list[list[str]]:
    """The lines of several files with equal numbers of lines.

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
    """Reads pairs of files with equal numbers of lines, in order.

    Raises:
        InputError: where a file cannot be read, or two files do not match.
    """
    files = CorpusFiles(
        source=tuple(map(Path, sources)), target=tuple(map(Path, targets))
    )
    return ParallelText.concatenate(read_shards(files.shards()))


def read_tsv(
    paths: Sequence[str | Path], columns: Columns | None = None
) -> ParallelText:
    """Reads files of `source<TAB>target` lines, in order.

    Args:
        paths: the files.
        columns: see `read_pairs`.

    Raises:
        InputError: where a file cannot be read, or lines lack two columns.
    """
    return read_pairs(paths, "tsv", columns)


def read_pairs(
    paths: Sequence[str | Path], format: str, columns: Columns | None = None
) -> ParallelText:
    """Reads files that hold both sides of a corpus, in order.

    Args:
        paths: the files, compressed or not.
        format: `"tsv"`, `"csv"`, `"jsonl"`, `"parquet"` (needs pyarrow) or `"tmx"`.
        columns: the columns of source and target. For TSV and CSV two numbers from 1,
            or two names of the first line; for JSON lines two keys, with dots into
            nested objects (`"translation.en"`); for Parquet two names; for TMX two
            languages, which are required. None for the first two of TSV, and for the
            names `"source"` and `"target"` otherwise.

    Raises:
        InputError: where a file cannot be read, lacks the columns, or has faulty lines,
            all of which it names.

    Example:

    >>> import pathlib, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder, "a.jsonl")
    ...     _ = path.write_text('{"en": "A man.", "de": "Ein Mann."}')
    ...     read_pairs([path], "jsonl", ("en", "de"))
    ParallelText(source=['A man.'], target=['Ein Mann.'])
    """
    if format not in FORMATS:
        raise InputError(f"unknown format {format!r}; use one of {', '.join(FORMATS)}")
    tables: dict[str, Any] = {format: tuple(map(Path, paths))}
    files = CorpusFiles(**tables, columns=columns)
    return ParallelText.concatenate(read_shards(files.shards()))


def _line_pairs(
    source: LineReader, target: LineReader, chunk: int
) -> Iterator[ParallelText]:
    sources, targets = source.read(chunk), target.read(chunk)
    while count := min(len(sources), len(targets)):
        yield ParallelText(sources[:count], targets[:count])
        # With long lines, one reader returns fewer lines at once than the other.
        sources = sources[count:] or source.read(chunk)
        targets = targets[count:] or target.read(chunk)
    if sources or targets:
        raise _unequal(source.path, source.count(), target.path, target.count())


def _unequal(
    path: str | Path, lines: int, other_path: str | Path, other_lines: int
) -> InputError:
    return InputError(
        f"{path} has {lines} lines but {other_path} has {other_lines}; line i of one "
        f"must belong to line i of the other"
    )
