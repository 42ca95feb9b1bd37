"""Readers of sentence pairs in one file: TSV, CSV, JSON lines and TMX."""

from __future__ import annotations

import csv
import json
from collections.abc import Callable
from collections.abc import Iterator
from functools import partial
from xml.parsers import expat

from keras_transformer.data.columns import Cells
from keras_transformer.data.columns import Columns
from keras_transformer.data.columns import from_object
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import NO_SENTENCE
from keras_transformer.data.line_faults import LineFault
from keras_transformer.data.line_faults import LineFaults
from keras_transformer.data.line_faults import check_text
from keras_transformer.data.line_faults import too_long
from keras_transformer.data.line_reader import LineReader
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tmx import TranslationUnits
from keras_transformer.errors import InputError

Pair = tuple[str, str]

_EMPTY: Pair = ("", "")


def one_line(text: str) -> str:
    """The text of a cell without its line breaks, checked.

    Raises:
        LineFault: for characters that no sentence holds, or a text that is too long.
    """
    if len(text) > LONGEST_LINE:  # a cell of Parquet, which has no lines
        raise LineFault(NO_SENTENCE)
    check_text(text)
    return _joined(text)


def _joined(text: str) -> str:
    """The lines of a text with one space between."""
    if "\n" not in text:
        return text
    return " ".join(filter(None, map(str.strip, text.split("\n"))))


def tsv_pairs(
    reader: LineReader, columns: Columns | None, chunk: int
) -> Iterator[ParallelText]:
    """The pairs of tab-separated lines; a blank line is an empty pair."""
    cells = Cells(reader.path, columns, (1, 2))

    def parse(line: str) -> Pair | None:
        return cells.pair(line.split("\t")) if "\t" in line or line.strip() else _EMPTY

    yield from _by_lines(reader, parse, chunk)


def jsonl_pairs(
    reader: LineReader, columns: Columns | None, chunk: int
) -> Iterator[ParallelText]:
    """The pairs of JSON objects, one per line; a blank line is an empty pair."""
    yield from _by_lines(reader, partial(_of_object, columns), chunk)


def _of_object(columns: Columns | None, line: str) -> Pair:
    if not line.strip():
        return _EMPTY
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise LineFault("is not JSON; give one object per line") from None
    source, target = from_object(row, columns)
    return one_line(source), one_line(target)


def _by_lines(
    reader: LineReader, parse: Callable[[str], Pair | None], chunk: int
) -> Iterator[ParallelText]:
    while pairs := reader.read(chunk, parse):
        yield ParallelText.of_pairs(pair for pair in pairs if pair is not None)


def csv_pairs(
    reader: LineReader, columns: Columns | None, chunk: int
) -> Iterator[ParallelText]:
    """The pairs of comma-separated rows, quoted where necessary."""
    cells = Cells(reader.path, columns, ("source", "target"))
    faults = LineFaults(reader.path)
    pairs: list[Pair] = []
    for number, row in _rows(reader):
        try:
            pair = cells.pair(list(map(one_line, row))) if row else _EMPTY
        except LineFault as fault:
            faults.add(number, fault)
            pairs = []  # these pairs are dropped; only further faults are looked for
            continue
        if pair is not None and not faults:
            pairs.append(pair)
        if len(pairs) >= chunk:
            yield ParallelText.of_pairs(pairs)
            pairs = []
    if faults:
        raise faults.error()
    yield ParallelText.of_pairs(pairs)


def _rows(reader: LineReader) -> Iterator[tuple[int, list[str]]]:
    """The rows, each with the number of its first line."""
    size = 0

    def lines() -> Iterator[str]:
        nonlocal size
        number = 0
        while block := reader.read(1000):
            for line in block:
                number, size = number + 1, size + len(line)
                if size > LONGEST_LINE:  # of one row, in an open quote
                    raise too_long(reader.path, number)
                yield f"{line}\n"

    rows = csv.reader(lines(), strict=True)
    while True:
        first, size = rows.line_num + 1, 0
        try:
            row = next(rows)
        except StopIteration:
            return
        except csv.Error as error:
            if "field limit" in str(error):
                raise InputError(
                    f"{reader.path}, line {first}: a cell has more than "
                    f"{csv.field_size_limit():,} characters; shorten it, check that "
                    f"each quote is closed, or give the texts as TSV"
                ) from None
            raise InputError(
                f"{reader.path}, line {first}: {error}; fix its quotes: a quote "
                "inside a cell is written twice"
            ) from None
        yield first, row


def tmx_pairs(
    reader: LineReader, columns: Columns, chunk: int
) -> Iterator[ParallelText]:
    """The pairs of a translation memory; a unit without both sides is an empty pair.

    Raises:
        InputError: where it is not XML, declares entities, or lacks the languages.
    """
    units, pending = TranslationUnits(columns), []
    try:
        for block in reader.blocks():
            units.feed(block)
            pending += units.taken()
            while len(pending) >= chunk:
                yield _of_units(pending[:chunk])
                pending = pending[chunk:]
        units.end()
        pending += units.taken()
    except expat.ExpatError as error:
        fault = expat.ErrorString(error.code)
        raise InputError(
            f"{reader.path}, line {error.lineno}: {fault}; give a TMX file"
        ) from None
    except LineFault as fault:
        raise InputError(
            f"{reader.path}, line {units.line}: {fault}; give a TMX file"
        ) from None
    if units.count and not units.complete:
        codes = ", ".join(sorted(units.languages)[:20]) or "none"
        raise InputError(
            f"{reader.path} has no unit in both {columns[0]} and {columns[1]}; its "
            f"languages are: {codes}; choose two of them by columns"
        )
    reader.lines = units.count
    yield _of_units(pending)


def _of_units(units: list[Pair]) -> ParallelText:
    return ParallelText.of_pairs(
        (_joined(source), _joined(target)) for source, target in units
    )
