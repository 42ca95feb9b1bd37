"""Lines in: UTF-8 whatever the locale, one after the other."""

import contextlib
import sys
from collections.abc import Iterable
from collections.abc import Iterator
from itertools import repeat
from pathlib import Path
from typing import BinaryIO

from keras_transformer.data.file_lines import file_lines
from keras_transformer.errors import InputError

STANDARD_INPUT = "standard input"


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """The bytes of a file, or of standard input.

    Raises:
        InputError: where there is no such file.
    """
    if path is None:
        if sys.stdin is None:
            raise InputError("there is no standard input; give --input")
        yield sys.stdin.buffer
        return
    try:
        file = path.open("rb")
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; check the path"
        ) from None
    with file:
        yield file


def decoded(lines: Iterable[bytes], path: Path | None) -> Iterator[str]:
    r"""Each line without its `\n` or `\r\n`, and without a byte order mark.

    Raises:
        InputError: where a line is not UTF-8, with its number.
    """
    for number, line in enumerate(lines, 1):
        try:
            text = line.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise InputError(
                f"{path or STANDARD_INPUT}, line {number}: not UTF-8 "
                f"({error.reason}); convert it to UTF-8"
            ) from None
        yield text.removesuffix("\n").removesuffix("\r")


def with_prefixes(
    texts: Iterable[str], prefixes: Path | None
) -> Iterator[tuple[str, str]]:
    """Each line with that of the file `prefixes`, or with nothing.

    Raises:
        InputError: where the file cannot be read, or has fewer lines or more.
    """
    with opened(prefixes) if prefixes else contextlib.nullcontext() as file:
        starts: Iterator[str] = repeat("")
        if prefixes:
            starts = decoded(file_lines(file, prefixes), prefixes)
        for number, text in enumerate(texts, 1):
            if (start := next(starts, None)) is None:
                raise InputError(f"{prefixes} has no line {number}; give one a line")
            yield text, start
        if prefixes and next(starts, None) is not None:
            raise InputError(f"{prefixes} has more lines than the input; give as many")
