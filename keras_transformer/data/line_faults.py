"""Faults of the lines of a file, collected in one error with line numbers."""

from __future__ import annotations

import codecs
from pathlib import Path

from keras_transformer.errors import InputError

LONGEST_LINE = 2**24  # bytes
BEGINNING = 4096  # bytes of a file that show its encoding
_SHOWN = 20  # ranges of line numbers, and kinds of faults

NO_SENTENCE = (
    f"longer than {LONGEST_LINE >> 20} MiB; give a text file with one sentence per line"
)

_MARKS = {
    codecs.BOM_UTF32_LE: "UTF-32",
    codecs.BOM_UTF32_BE: "UTF-32",
    codecs.BOM_UTF16_LE: "UTF-16",
    codecs.BOM_UTF16_BE: "UTF-16",
}
_WIDE_ENCODINGS = ("UTF-32LE", "UTF-32BE", "UTF-16LE", "UTF-16BE")
_FEW = 0.05  # of a file's bytes are NULs, where it has some by accident


class LineFault(Exception):  # one of many, which become an error
    """The fault of a line, in the same words for all lines that have it."""


class LineFaults:
    """Collector of the faulty lines of a file; takes little memory for any number.

    Args:
        path: the file, for the message.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = path
        self._kinds: dict[str, _Lines] = {}
        self._others = 0  # lines of further kinds

    def add(self, number: int, fault: LineFault | str) -> None:
        """Adds a faulty line; lines of one kind of fault come in order."""
        kind = str(fault)
        if kind not in self._kinds:
            if len(self._kinds) == _SHOWN:
                self._others += 1
                return
            self._kinds[kind] = _Lines()
        self._kinds[kind].add(number)

    def __bool__(self) -> bool:
        return bool(self._kinds)

    def error(self) -> InputError:
        """One error that names all lines, or the first and how many more."""
        parts = [f"{lines}: {kind}" for kind, lines in self._kinds.items()]
        if self._others:
            parts.append(f"{self._others} more faults, of other kinds")
        return InputError(f"{self._path}, {'; '.join(parts)}")


class _Lines:
    """Line numbers: the first ranges, and the number of further lines."""

    def __init__(self) -> None:
        self._ranges: list[list[int]] = []
        self._more = 0

    def add(self, number: int) -> None:
        ranges = self._ranges
        if ranges and ranges[-1][1] >= number - 1:
            ranges[-1][1] = number
        elif len(ranges) < _SHOWN:
            ranges.append([number, number])
        else:
            self._more += 1

    def __str__(self) -> str:
        """`line 3`, or `lines 3, 5-9 and 17 more`."""
        shown = [
            str(first) if first == last else f"{first}-{last}"
            for first, last in self._ranges
        ]
        if self._more:
            shown.append(f"{self._more} more")
        *before, end = shown
        noun = "line" if end.isdigit() and not before else "lines"
        return f"{noun} {' and '.join(filter(None, [', '.join(before), end]))}"


def too_long(path: str | Path, number: int) -> InputError:
    """The error of a line without an end."""
    return InputError(f"{path}, line {number}: {NO_SENTENCE}")


def utf8_fault(line: bytes) -> LineFault | None:
    """The fault of a line that is not UTF-8."""
    try:
        line.decode("utf-8")
    except UnicodeDecodeError as error:
        return LineFault(f"not UTF-8 ({error.reason}); convert the file to UTF-8")
    return None


def check_text(text: str) -> None:
    """Refuses characters that no sentence holds.

    Raises:
        LineFault: for a NUL, or half a character of UTF-16.
    """
    if "\0" in text:
        raise LineFault("holds a NUL character (byte 0); remove it")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise LineFault(
            "holds a lone surrogate, half of a character; remove it"
        ) from None


def check_encoding(path: str | Path, beginning: bytes) -> None:
    """Refuses UTF-16 and UTF-32, with or without a byte order mark.

    Raises:
        InputError: naming the encoding.
    """
    if name := wide_encoding(beginning):
        raise InputError(
            f"{path} is {name}, not UTF-8; convert it, for instance with "
            f"iconv -f {name} -t UTF-8"
        )


def wide_encoding(beginning: bytes) -> str | None:
    """The wide encoding that text begins in, as `UTF-16LE`; or None."""
    for mark, name in _MARKS.items():
        if beginning.startswith(mark):
            return name
    zeros = beginning.count(0)
    if not zeros:  # each line feed would have one
        return None
    if zeros < _FEW * len(beginning) and utf8_fault(beginning) is None:
        return None
    names = (name for name in _WIDE_ENCODINGS if _reads_as_text(beginning, name))
    return next(names, None)


def _reads_as_text(beginning: bytes, encoding: str) -> bool:
    # A line ends before the second byte of its end.
    padding = b"\0" * (encoding.endswith("LE") and beginning.endswith(b"\n"))
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(beginning + padding)
    except UnicodeDecodeError:
        return False
    num_plain = sum(letter.isprintable() or letter in "\t\r\n" for letter in text)
    num_narrow = sum(letter < "\u0100" for letter in text)
    is_spaced = "\n" in text or 2 * num_narrow > len(text)
    return is_spaced and bool(text.strip()) and num_plain > 0.95 * len(text)
