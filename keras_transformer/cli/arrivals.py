"""Lines that come one by one, by a pipe or from a keyboard."""

import io
import math
import os
import select
import time
from collections import deque
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

from keras_transformer.data.file_lines import file_lines
from keras_transformer.data.line_faults import BEGINNING
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import check_encoding
from keras_transformer.data.line_faults import too_long
from keras_transformer.data.unpacking import Pieces
from keras_transformer.data.unpacking import packing

_CHUNK = 2**16  # bytes


class Arrivals:
    """Lines as they arrive; read past Python's buffer, which tells not what is in it.

    Args:
        descriptor: of the open file, at its beginning.
        name: of the file, for messages.

    Raises:
        InputError: where it is UTF-16, or a line is too long to be one.
    """

    def __init__(self, descriptor: int, name: Path | str) -> None:
        self._descriptor = descriptor
        self._name = name
        self._lines: deque[bytes] = deque()
        self._begun = bytearray()  # a line whose end has not come
        self._count = 0
        self._packed = self._ended = False

    def __iter__(self) -> Iterator[bytes]:
        while self.ready(math.inf) and self._lines:
            yield self._lines.popleft()
        if self._packed:
            chunks = iter(lambda: os.read(self._descriptor, _CHUNK), b"")
            pieces = Pieces(chain([bytes(self._begun)], chunks))
            yield from file_lines(io.BufferedReader(pieces), self._name)

    def ready(self, until: float) -> bool:
        """Whether a line, or the end, is there by a time; what is packed always is."""
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
