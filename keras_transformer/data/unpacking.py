"""Packed files as the bytes that are in them, of which no more is unpacked than read.

Whether and how a file is packed is known by its content.
"""

from __future__ import annotations

import bz2
import contextlib
import gzip
import io
import lzma
import re
import sys
import zlib
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from keras_transformer.errors import InputError

if TYPE_CHECKING:  # for which a reader names what it reads
    BufferedFile = io.BufferedReader[Any]
else:
    BufferedFile = io.BufferedReader

_BLOCK = 1 << 20  # bytes
_MEMORY = 2**28  # bytes that unpacking xz may take; xz -9 takes 2**26
_WINDOW = 27  # zstd may look back so many bits of bytes, as its program allows

#: How a file begins. Text may begin with the letters BZh, too.
_BEGINNINGS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd"),
}
#: Bytes that tell them apart.
LONGEST_BEGINNING = 10


def packing(beginning: bytes) -> str | None:
    """The name of what packed a file that begins so; None for nothing that is known."""
    names = (name for name, form in _BEGINNINGS.items() if form.match(beginning))
    return next(names, None)


def unpacked(file: BufferedFile) -> BufferedFile:
    """The file, or a file of what is packed in it.

    Args:
        file: at its beginning.

    Raises:
        InputError: where zstd is not installed.
    """
    name = packing(file.peek(LONGEST_BEGINNING)[:LONGEST_BEGINNING])
    if name is None:
        return file
    if name == "gzip":
        return io.BufferedReader(gzip.GzipFile(fileobj=file), _BLOCK)
    return io.BufferedReader(Pieces(_UNPACKED[name](file)), _BLOCK)


@contextlib.contextmanager
def explained(path: str | Path) -> Iterator[None]:
    """Turns what reading and unpacking raise into one error.

    Raises:
        InputError: where the file cannot be read, or is cut off or damaged.
    """
    try:
        yield
    except _MemoryError:
        raise InputError(
            f"{path} needs very much memory to unpack; pack it anew, with xz -9 or "
            f"zstd -19 or less"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error, _DamagedError):
        raise InputError(
            f"{path} is a packed file that is cut off or damaged; copy it again"
        ) from None
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; check the path"
        ) from None


class _DamagedError(Exception):
    pass


class _MemoryError(Exception):
    pass


class Pieces(io.RawIOBase):
    """A file of pieces of bytes, each made when it is read.

    Args:
        pieces: in order; empty ones are passed over.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads a part of one piece."""
        room = memoryview(buffer)
        while not self._piece:
            piece = next(self._pieces, None)
            if piece is None:
                return 0
            self._piece = memoryview(piece)
        count = min(len(room), len(self._piece))
        room[:count] = self._piece[:count]
        self._piece = self._piece[count:]
        return count


def _streams(
    file: io.BufferedReader, start: Callable[[], Any], padding: bytes = b""
) -> Iterator[bytes]:
    """What is in the streams that follow each other in a file of bzip2 or xz."""
    data = file.read(_BLOCK)
    while data:
        stream = start()
        while not stream.eof:
            yield _decompressed(stream, data, _BLOCK)
            data = b""
            if stream.needs_input and not stream.eof:
                data = file.read(_BLOCK)
                if not data:
                    raise EOFError
        data = stream.unused_data.lstrip(padding)
        while not data and (more := file.read(_BLOCK)):
            data = more.lstrip(padding)


def _frames(file: io.BufferedReader) -> Iterator[bytes]:
    """What is in the frames of a file of zstd."""
    start, frame = _zstd_frame(), None
    # A piece of a thousand bytes may hold 32 MiB: never many at once.
    while data := file.read(1024):
        while data:
            frame = frame or start()
            yield _decompressed(frame, data)
            data = b""
            if frame.eof:
                data, frame = frame.unused_data, None
    if frame is not None:
        raise EOFError


def _decompressed(stream: Any, data: bytes, *most: int) -> bytes:
    try:
        return stream.decompress(data, *most)
    except Exception as error:  # each library has its own
        if "memory" in str(error).lower():
            raise _MemoryError from None
        raise _DamagedError from None


def _zstd_frame() -> Callable[[], Any]:
    """What starts a frame of zstd."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        limit = {zstd.DecompressionParameter.window_log_max: _WINDOW}
        return lambda: zstd.ZstdDecompressor(options=limit)
    try:
        import zstandard
    except ModuleNotFoundError:
        raise InputError(
            "zstandard, which unpacks .zst, is not installed; run pip install zstandard"
        ) from None
    return zstandard.ZstdDecompressor(max_window_size=2**_WINDOW).decompressobj


_UNPACKED: dict[str, Callable[[io.BufferedReader], Iterator[bytes]]] = {
    "bzip2": lambda file: _streams(file, bz2.BZ2Decompressor),
    "xz": lambda file: _streams(
        file, lambda: lzma.LZMADecompressor(memlimit=_MEMORY), b"\0"
    ),
    "zstd": _frames,
}
