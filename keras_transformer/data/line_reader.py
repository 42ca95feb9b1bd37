"""The lines of one file, a few at a time, and what the file was when it was read."""

from __future__ import annotations

import contextlib
import dataclasses
import gzip
import hashlib
import io
import os
import zlib
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from keras_transformer.errors import InputError

_GZIP_MAGIC = b"\x1f\x8b"
_BLOCK = 1 << 20  # bytes


@dataclasses.dataclass(frozen=True)
class FileRecord:
    """What a file was when it was read.

    Args:
        path: its path.
        size: its bytes, packed as they are.
        mtime_ns: the time of its last change.
        lines: its lines.
        sha256: of its bytes.
    """

    path: str
    size: int
    mtime_ns: int
    lines: int
    sha256: str

    def same_content(self, other: FileRecord) -> bool:
        """Whether both have the same bytes, wherever they lie and of any age."""
        return (self.size, self.sha256) == (other.size, other.sha256)

    def is_untouched(self) -> bool:
        """Whether the file still has its size and time; it is not read."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        return (status.st_size, status.st_mtime_ns) == (self.size, self.mtime_ns)

    def __str__(self) -> str:
        return f"{self.lines} lines, {self.size} bytes, sha256 {self.sha256[:12]}"


class LineReader:
    r"""Reads the lines of a UTF-8 file, gzipped or not, as they are asked for.

    A context manager; the file is opened when the context is entered. Only `\n` ends a
    line; a byte order mark and one `\r` before each `\n` are dropped.

    Args:
        path: the file; whether it is gzipped is known by its content.

    Attributes:
        path: the argument.
        lines: lines read so far.
        bytes_read: bytes of the file read so far.

    Raises:
        InputError: where the file is missing, empty, cut off or not UTF-8.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = path
        self.lines = 0
        self.bytes_read = 0
        self._hash = hashlib.sha256()

    def __enter__(self) -> LineReader:
        self._stack = contextlib.ExitStack()
        with self._explained(), contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(self.path, "rb", buffering=0))
            self._status = os.fstat(raw.fileno())
            file = stack.enter_context(io.BufferedReader(_Watched(raw, self), _BLOCK))
            if file.peek(2)[:2] == _GZIP_MAGIC:
                unpacked = stack.enter_context(gzip.GzipFile(fileobj=file))
                file = stack.enter_context(io.BufferedReader(unpacked, _BLOCK))
            self._file = file
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def read(self, count: int) -> list[str]:
        """The next lines, at most `count`; none at the end of the file."""
        first = self.lines
        with self._explained():
            lines = list(islice(self._file, count))
        if not lines:
            if not first:
                raise InputError(
                    f"{self.path} is empty; give a file with one sentence a line"
                )
            return []
        self.lines += len(lines)
        try:
            text = b"".join(lines).decode("utf-8" if first else "utf-8-sig")
        except UnicodeDecodeError as error:
            line = first + error.object.count(b"\n", 0, error.start) + 1
            raise InputError(
                f"{self.path}, line {line}: not UTF-8 ({error.reason}); convert the "
                f"file to UTF-8"
            ) from None
        lines = text.removesuffix("\n").split("\n")
        return [line.removesuffix("\r") for line in lines] if "\r" in text else lines

    def count(self) -> int:
        """The number of all lines; reads the rest of the file."""
        with self._explained():
            self.lines += sum(1 for _ in self._file)
        return self.lines

    def record(self) -> FileRecord:
        """What the file was; to be asked for when it was read to its end.

        Raises:
            InputError: where the file changed while it was read.
        """
        size, time = self._status.st_size, self._status.st_mtime_ns
        path = os.path.abspath(self.path)
        record = FileRecord(path, size, time, self.lines, self._hash.hexdigest())
        if self.bytes_read != size or not record.is_untouched():
            raise InputError(
                f"{self.path} changed while it was read; start again when it is whole"
            )
        return record

    @contextlib.contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (EOFError, gzip.BadGzipFile, zlib.error):
            raise InputError(
                f"{self.path} is a gzip file that is cut off or damaged; copy it again"
            ) from None
        except OSError as error:
            raise InputError(
                f"cannot read {self.path}: {error.strerror}; check the path"
            ) from None


def record_of(path: str | Path) -> FileRecord:
    """Reads a file only for its record.

    Raises:
        InputError: where it is missing or cut off.
    """
    with LineReader(path) as reader:
        reader.count()
    return reader.record()


def same_content_now(record: FileRecord) -> FileRecord | None:
    """The file's record of today, where it still has the content of then.

    Where size and time are those of then, the file is not read.
    """
    if record.is_untouched():
        return record
    try:
        if os.stat(record.path).st_size != record.size:
            return None
        now = record_of(record.path)
    except (OSError, InputError):
        return None
    return now if now.same_content(record) else None


class _Watched(io.RawIOBase):
    """A file whose bytes are counted and hashed as they pass."""

    def __init__(self, raw: io.RawIOBase, reader: LineReader) -> None:
        self._raw = raw
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: memoryview) -> int:
        count = self._raw.readinto(buffer)
        self._reader.bytes_read += count
        self._reader._hash.update(memoryview(buffer)[:count])
        return count
