"""The two of a row's cells, or of an object's keys, that are a sentence pair."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.data.line_faults import LineFault
from keras_transformer.errors import InputError

#: Of the source and of the target: numbers from 1, or names.
Columns = tuple[int, int] | tuple[str, str]

#: What holds sentence pairs in one file.
FORMATS = ("tsv", "csv", "jsonl", "parquet", "tmx")

_SIDES = ("source", "target")


def columns_fault(format: str, columns: Sequence[Any] | None) -> str | None:
    """What is wrong with the columns of a format; None where nothing is.

    Args:
        format: one of `FORMATS`.
        columns: None for the format's own.
    """
    if columns is None:
        if format == "tmx":
            return "tmx needs columns, its two languages, such as [en, de]"
        return None
    names = all(isinstance(column, str) and column for column in columns)
    numbers = format in ("tsv", "csv") and all(
        isinstance(column, int) and not isinstance(column, bool) and column > 0
        for column in columns
    )
    if len(columns) != 2 or columns[0] == columns[1] or not (names or numbers):
        kinds = "names, or two numbers from 1" if format in ("tsv", "csv") else "names"
        return (
            f"columns of {format} must be two {kinds}, of source and target, got "
            f"{list(columns)}"
        )
    return None


class Cells:
    """The two cells of each row of a table that are a pair.

    Names are those of the first row; where columns have numbers, it is a pair, too.

    Args:
        path: of the file, for messages.
        columns: None for the format's own.
        default: the format's own.
    """

    def __init__(
        self, path: str | Path, columns: Columns | None, default: Columns
    ) -> None:
        self._path = path
        self._columns = columns or default
        self._width = 0
        self._places: tuple[int, int] | None = None
        self._said = ""
        if columns is None and isinstance(default[0], int):
            self._width, self._places = 2, (0, 1)
            self._said = " (source, tab, target)"

    def pair(self, row: Sequence[str]) -> tuple[str, str] | None:
        """Source and target; None for the row of names.

        Raises:
            LineFault: where the row is longer or shorter than the first.
            InputError: where the first row has not the columns.
        """
        places = self._places
        if places is None:
            places = self._places = self._begin(row)
            if isinstance(self._columns[0], str):
                return None
        if len(row) != self._width:
            raise LineFault(
                f"expected {self._width} columns{self._said}, found {len(row)}; mend "
                f"or remove them, or choose two by columns"
            )
        source, target = places
        return row[source], row[target]

    def _begin(self, row: Sequence[str]) -> tuple[int, int]:
        self._width = len(row)
        names = list(row)
        try:
            source, target = (
                names.index(column)
                if isinstance(column, str)
                else range(len(row)).index(column - 1)
                for column in self._columns
            )
        except ValueError:
            raise missing_columns(self._path, self._columns, names) from None
        return source, target


def missing_columns(
    path: str | Path, columns: Columns, names: Sequence[str]
) -> InputError:
    """The error of a file that has not the columns."""
    known = ", ".join(repr(name[:40]) for name in names[:20])
    return InputError(
        f"{path} has not the columns {columns[0]} and {columns[1]}, but {len(names)}: "
        f"{known}; choose two of them by columns"
    )


def from_object(row: Any, columns: Columns | None) -> tuple[str, str]:
    """Source and target of an object of JSON; a dot in a name leads into an object.

    Raises:
        LineFault: where it has not both as text.
    """
    source, target = (_value(row, str(name)) for name in columns or _SIDES)
    return source, target


def _value(row: Any, name: str) -> str:
    value, rest = row, name
    while rest:
        if not isinstance(value, Mapping):
            raise LineFault(
                f"is no object with a key {name}; choose two keys by columns"
            )
        key = rest if rest in value else rest.partition(".")[0]
        if key not in value:
            raise LineFault(f"has no key {name}; choose two keys by columns")
        value, rest = value[key], rest[len(key) + 1 :]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LineFault(f"{name} is no text; choose two keys by columns")
    return value
