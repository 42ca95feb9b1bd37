"""Columns of a sentence pair: two cells of a row, or two keys of a JSON object."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.data.line_faults import LineFault
from keras_transformer.errors import InputError

#: The columns of source and target: numbers from 1, or names.
Columns = tuple[int, int] | tuple[str, str]

#: The formats that hold sentence pairs in one file.
FORMATS = ("tsv", "csv", "jsonl", "parquet", "tmx")

_SIDES = ("source", "target")


def columns_fault(format: str, columns: Sequence[Any] | None) -> str | None:
    """The fault of the columns of a format; None where there is none.

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
    """The two cells of each row of a table that form a pair.

    Names refer to the first row; with numbered columns, the first row is a pair too.

    Args:
        path: of the file, for messages.
        columns: None for the format's own.
        default: the default columns of the format.
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
        """The source and target of a row; None for the row of names.

        Raises:
            LineFault: where the row is longer or shorter than the first.
            InputError: where the first row lacks the columns.
        """
        places = self._places
        if places is None:
            places = self._places = self._begin(row)
            if isinstance(self._columns[0], str):
                return None
        if len(row) != self._width:
            raise LineFault(
                f"expected {self._width} columns{self._said}, found {len(row)}; fix "
                "or remove these lines, or set 'columns' to two of them"
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
    """The error of a file that lacks the columns."""
    columns_of_file = ", ".join(repr(name[:40]) for name in names[:20])
    return InputError(
        f"{path} has no columns {columns[0]} and {columns[1]}; its {len(names)} "
        f"columns are: {columns_of_file}; set 'columns' to two of them"
    )


def from_object(row: Any, columns: Columns | None) -> tuple[str, str]:
    """Source and target of a JSON object; a dot in a name leads into a nested object.

    Raises:
        LineFault: where one of them is missing or not text.
    """
    source, target = (_value(row, str(name)) for name in columns or _SIDES)
    return source, target


def _value(row: Any, name: str) -> str:
    value, rest = row, name
    while rest:
        if not isinstance(value, Mapping):
            raise LineFault(
                f"is not an object with a key {name}; set columns to two keys"
            )
        key = rest if rest in value else rest.partition(".")[0]
        if key not in value:
            raise LineFault(f"has no key {name}; set columns to two keys")
        value, rest = value[key], rest[len(key) + 1 :]
    if value is None:
        return ""
    if not isinstance(value, str):
        raise LineFault(f"{name} is not text; set columns to two keys")
    return value
