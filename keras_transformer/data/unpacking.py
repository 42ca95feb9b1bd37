"""Decompression of files (gzip, bzip2, xz, zstd) as a stream, on demand.

The compression is detected from the content of a file.
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
_MEMORY = 2**28  # memory limit of xz, in bytes; xz -9 takes 2**26
_WINDOW = 27  # window of zstd, as log2 of bytes; its program's limit

#: The first bytes of compressed files. Text may begin with the letters BZh, too.
_BEGINNINGS = {
    "gzip": re.compile(rb"\x1f\x8b"),
    "bzip2": re.compile(rb"BZh[1-9](1AY&SY|\x17rE8P\x90)"),
    "xz": re.compile(rb"\xfd7zXZ\x00"),
    # Of a frame, or of one that is to be skipped.
    "zstd": re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18"),
}
#: Number of bytes that distinguish them.
LONGEST_BEGINNING = 10


def packing(beginning: bytes) -> str | None:
    """The compression of a file with these first bytes; None for none that is known."""
    names = (name for name, form in _BEGINNINGS.items() if form.match(beginning))
    return next(names, None)


def unpacked(file: BufferedFile) -> BufferedFile:
    """The file itself, or a file of its decompressed content.

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
    """Turns the errors of reading and decompressing into an `InputError`.

    Raises:
        InputError: where the file cannot be read, or is truncated or damaged.
    """
    try:
        yield
    except _MemoryError:
        raise InputError(
            f"{path} needs too much memory to decompress; compress it again, with xz "
            "-9 or zstd -19 at most"
        ) from None
    except (EOFError, gzip.BadGzipFile, zlib.error, _DamagedError):
        raise InputError(
            f"{path} is a compressed file that is truncated or damaged; copy it again"
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
    """A binary file over an iterator of byte chunks.

    Args:
        pieces: the chunks in order; empty ones are skipped.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._piece = memoryview(b"")

    def readable(self) -> bool:
        """True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Reads a part of one chunk."""
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
    """The content of the concatenated streams of a bzip2 or xz file."""
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
    """The content of the frames of a zstd file."""
    start, frame = _zstd_frame(), None
    # A thousand bytes may expand to 32 MiB: decompress little at once.
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
    """The decompressor of a zstd frame."""
    if sys.version_info >= (3, 14):
        from compression import zstd

        limit = {zstd.DecompressionParameter.window_log_max: _WINDOW}
        return lambda: zstd.ZstdDecompressor(options=limit)
    try:
        import zstandard
    except ModuleNotFoundError:
        raise InputError(
            "zstandard, which decompresses .zst, is not installed; run pip install "
            "zstandard"
        ) from None
    return zstandard.ZstdDecompressor(max_window_size=2**_WINDOW).decompressobj


_UNPACKED: dict[str, Callable[[io.BufferedReader], Iterator[bytes]]] = {
    "bzip2": lambda file: _streams(file, bz2.BZ2Decompressor),
    "xz": lambda file: _streams(
        file, lambda: lzma.LZMADecompressor(memlimit=_MEMORY), b"\0"
    ),
    "zstd": _frames,
}
