"""Input lines: UTF-8 in every locale, streamed, and grouped as they arrive."""

import contextlib
import io
import math
import os
import select
import stat
import sys
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from itertools import chain
from itertools import count
from itertools import repeat
from pathlib import Path
from typing import Any
from typing import BinaryIO

from keras_transformer.data.line_faults import BEGINNING
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import check_encoding
from keras_transformer.data.line_faults import too_long
from keras_transformer.data.unpacking import Pieces
from keras_transformer.data.unpacking import explained
from keras_transformer.data.unpacking import packing
from keras_transformer.data.unpacking import unpacked
from keras_transformer.errors import InputError

STANDARD_INPUT = "standard input"

_CHUNK = 2**16  # bytes
_LONGEST_WAIT = 0.1  # seconds that the first line of a group waits


@contextlib.contextmanager
def opened(path: Path | None) -> Iterator[BinaryIO]:
    """An open binary file: the path, or standard input.

    Raises:
        InputError: where there is no such file.
    """
    if path is None:
        if sys.stdin is None:
            raise InputError("standard input is closed; give --input")
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
    """Each line with its prefix from the file `prefixes`; None without such a file.

    Raises:
        InputError: where the file cannot be read, or its number of lines differs.
    """
    with opened(prefixes) if prefixes else contextlib.nullcontext() as file:
        starts: Iterator[str] = repeat("")
        if prefixes and file:
            starts = decoded(_file_lines(file, prefixes), prefixes)
        for number, text in enumerate(texts, 1):
            if (start := next(starts, None)) is None:
                raise InputError(
                    f"{prefixes} has no line {number}; give one prefix for each "
                    "input line"
                )
            yield text, start
        if prefixes and next(starts, None) is not None:
            raise InputError(
                f"{prefixes} has more lines than the input; give one prefix for each "
                "input line"
            )


def incoming(
    file: BinaryIO, path: Path | None
) -> tuple[Iterable[bytes], Callable[[float], bool]]:
    """The lines of a file, and a function that tells whether the next line has arrived.

    The function waits for the next line, or for the end, until a time of
    `time.monotonic`. The next line of a regular file has always arrived.

    Args:
        file: at its beginning.
        path: the file's path, for messages; None for standard input.
    """
    name = path or STANDARD_INPUT
    if not _comes_slowly(file):
        return _file_lines(file, name), lambda until: True
    arrivals = _Arrivals(file.fileno(), name, _prompter(file))
    return arrivals, arrivals.ready


def _prompter(file: BinaryIO) -> Callable[[str], None]:
    """Writes a prompt where a person types and sees it."""
    if not (file.isatty() and sys.stderr is not None and sys.stderr.isatty()):
        return lambda text: None
    return lambda text: print(text, end="", file=sys.stderr, flush=True)


def _comes_slowly(file: BinaryIO) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except io.UnsupportedOperation:  # a file in memory
        return False
    if os.name == "nt":  # Windows can only wait for sockets
        return stat.S_ISSOCK(mode)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


def _file_lines(file: BinaryIO, name: Path | str) -> Iterator[bytes]:
    r"""The lines, each with its `\n`; decompressed where the file is compressed.

    Args:
        file: at its beginning.
        name: of the file, for messages.

    Raises:
        InputError: where the file is truncated, damaged or UTF-16, or a line is too
            long; raised before the whole line is in memory.
    """
    raw: Any = file
    with explained(name):
        file = unpacked(raw if hasattr(raw, "peek") else io.BufferedReader(raw))
        check_encoding(name, file.peek(BEGINNING)[:BEGINNING])
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if len(line) > LONGEST_LINE:
                raise too_long(name, number)
            if not line:
                return
            yield line


class _Arrivals:
    """Lines as they arrive, read without Python's buffer, whose content is hidden.

    Args:
        descriptor: of the open file, at its beginning.
        name: of the file, for messages.
        prompt: receives what a person is shown before each line.

    Raises:
        InputError: where the file is UTF-16, or a line is too long.
    """

    def __init__(
        self, descriptor: int, name: Path | str, prompt: Callable[[str], None]
    ) -> None:
        self._prompt = prompt
        self._descriptor = descriptor
        self._name = name
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()  # a line whose end has not arrived
        self._count = 0
        self._packed = self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while self._next_arrives():
            yield self._lines.popleft()
        if self._packed:
            chunks = iter(lambda: os.read(self._descriptor, _CHUNK), b"")
            pieces = Pieces(chain([bytes(self._begun)], chunks))
            yield from _file_lines(io.BufferedReader(pieces), self._name)

    def _next_arrives(self) -> bool:
        if not (self._lines or self._ended or self._packed):
            self._prompt("> ")
            self.ready(math.inf)
            if self._ended and not self._lines:
                self._prompt("\n")
        return bool(self._lines)

    def ready(self, until: float) -> bool:
        """Whether a line or the end arrives in time; true for compressed input."""
        while not (self._lines or self._ended or self._packed):
            wait = None if until == math.inf else max(until - time.monotonic(), 0.0)
            if not select.select([self._descriptor], [], [], wait)[0]:
                return False
            self._read()
        return True

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK)
        if not self._count and not self._begun:
            check_encoding(self._name, chunk[:BEGINNING])
            self._packed = packing(chunk) is not None
        self._ended = not chunk
        self._begun += chunk
        if self._packed:
            return
        if b"\n" in chunk:
            *whole, self._begun = self._begun.split(b"\n")
            self._lines.extend(map(bytes, whole))
            self._count += len(whole)
        elif self._ended and self._begun:
            self._lines.append(bytes(self._begun))
        if len(self._begun) > LONGEST_LINE:
            raise too_long(self._name, self._count + 1)


def pieces(
    lines: Iterable[Any], size: int, ready: Callable[[float], bool] = lambda until: True
) -> Iterator[list[Any]]:
    """Lists of `size` lines, the last one of fewer than twice as many.

    A list is shorter where the next line has not arrived. The last one is longer,
    because a rest of a few lines would need programs of its own.

    Args:
        lines: any number.
        size: the number of lines in a list.
        ready: whether the next line, or the end, arrives by a time of `time.monotonic`.
    """
    piece: list[Any] = []
    until = 0.0
    for line in lines:
        if not piece:
            until = time.monotonic() + _LONGEST_WAIT
        piece.append(line)
        if not ready(until):
            yield piece
            piece = []
        elif len(piece) == 2 * size:
            yield piece[:size]
            piece = piece[size:]
    if piece:
        yield piece
