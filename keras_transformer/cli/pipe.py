"""Lines of a pipe or a terminal, and whether the next one has come."""

import io
import math
import os
import select
import stat
import time
from collections import deque
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import BinaryIO

_CHUNK = 2**16  # bytes


def lines(file: BinaryIO) -> tuple[Iterable[bytes], Callable[[float], bool]]:
    """The lines of a file, and a function that says whether the next one is there.

    It waits for it, or for the end, until a time of `time.monotonic`. Of a plain file
    the next line always is there.
    """
    if not _comes_slowly(file):
        return file, lambda until: True
    pipe = _Pipe(file.fileno())
    return pipe, pipe.ready


def _comes_slowly(file: BinaryIO) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except io.UnsupportedOperation:  # a file in memory
        return False
    if os.name == "nt":  # can wait for sockets alone
        return stat.S_ISSOCK(mode)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()


class _Pipe:
    """Reads past Python's buffer, which would not tell what is in it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()  # a line whose end has not come
        self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while self.ready(math.inf) and self._lines:
            yield self._lines.popleft()

    def ready(self, until: float) -> bool:
        while not self._lines and not self._ended:
            wait = None if until == math.inf else max(until - time.monotonic(), 0.0)
            if not select.select([self._descriptor], [], [], wait)[0]:
                return False
            self._read()
        return True

    def _read(self) -> None:
        chunk = os.read(self._descriptor, _CHUNK)
        self._ended = not chunk
        self._begun += chunk
        if b"\n" in chunk:
            *whole, self._begun = self._begun.split(b"\n")
            self._lines.extend(map(bytes, whole))
        elif self._ended and self._begun:
            self._lines.append(bytes(self._begun))
