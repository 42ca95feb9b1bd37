"""Line reader of one file, a few lines at a time, and the record of the file read."""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import io
import os
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.data.line_faults import BEGINNING
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import LineFault
from keras_transformer.data.line_faults import LineFaults
from keras_transformer.data.line_faults import check_encoding
from keras_transformer.data.line_faults import check_text
from keras_transformer.data.line_faults import too_long
from keras_transformer.data.line_faults import utf8_fault
from keras_transformer.data.unpacking import explained
from keras_transformer.data.unpacking import unpacked
from keras_transformer.errors import InputError

_BLOCK = 1 << 20  # bytes
_MANY = 10_000  # lines
_MOST = 1 << 25  # bytes of the lines that are returned at once


@dataclasses.dataclass(frozen=True)
class FileRecord:
    """The record of a file that was read: sizes, times and digest.

    Args:
        path: its path.
        size: its bytes, compressed ones as they are.
        mtime_ns: the time of its last change.
        lines: its lines.
        sha256: the digest of its bytes.
        ctime_ns: the time of its last change of content or attributes, which programs
            cannot set, unlike `mtime_ns`; None in records of earlier versions.
    """

    path: str
    size: int
    mtime_ns: int
    lines: int
    sha256: str
    ctime_ns: int | None = dataclasses.field(default=None, compare=False)

    def same_content(self, other: FileRecord) -> bool:
        """Whether both have the same bytes, whatever their paths and times."""
        return (self.size, self.sha256) == (other.size, other.sha256)

    def is_untouched(self) -> bool:
        """Whether the file still has this size and these times, without reading it."""
        try:
            status = os.stat(self.path)
        except OSError:
            return False
        times = (status.st_mtime_ns, status.st_ctime_ns)
        ctime_ns = times[1] if self.ctime_ns is None else self.ctime_ns
        return self.size == status.st_size and (self.mtime_ns, ctime_ns) == times

    def __str__(self) -> str:
        return f"{self.lines} lines, {self.size} bytes, sha256 {self.sha256[:12]}"


class LineReader:
    r"""The lines of a UTF-8 file, compressed or not, read on demand.

    A context manager; the file is opened when the context is entered. Only `\n` ends a
    line; a byte order mark and one `\r` before each `\n` are dropped.

    Args:
        path: the file; compression is detected from its content.
        refuses_nul: whether a NUL in a line is a fault.

    Attributes:
        path: the argument.
        lines: lines read so far.
        bytes_read: bytes of the file read so far.

    Raises:
        InputError: where the file is missing, empty, cut off or not UTF-8.
    """

    def __init__(self, path: str | Path, refuses_nul: bool = False) -> None:
        self.path = path
        self.lines = 0
        self.bytes_read = 0
        self._refuses_nul = refuses_nul
        self._waiting: list[str] = []  # lines that nobody has asked for
        self._begun = b""  # a line whose end has not come
        self._known = 0  # lines of which the text is known
        self._hash = hashlib.sha256()

    def __enter__(self) -> LineReader:
        self._stack = contextlib.ExitStack()
        self._faults = LineFaults(self.path)
        with explained(self.path), contextlib.ExitStack() as stack:
            raw = stack.enter_context(open(self.path, "rb", buffering=0))
            self._status = os.fstat(raw.fileno())
            file = stack.enter_context(io.BufferedReader(_Watched(raw, self), _BLOCK))
            self._file = stack.enter_context(unpacked(file))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def read(self, count: int, parse: Callable[[str], Any] | None = None) -> list[Any]:
        """The next lines, at most `count`; fewer where they are long; none at the end.

        Args:
            count: how many.
            parse: maps each line to its item of the list; raises `LineFault` where the
                line is faulty.

        Raises:
            InputError: naming all faulty lines from here to the end.
        """
        lines = self._read(count, parse)
        if self._faults:
            while self._read(_MANY, parse):
                pass
            raise self._faults.error()
        return lines

    def blocks(self) -> Iterator[bytes]:
        """The rest of the file, decompressed, block by block."""
        while block := self._block():
            yield block

    def count(self) -> int:
        """The number of all lines; reads the rest of the file."""
        self.lines += len(self._waiting)
        is_cut = bool(self._begun)  # the last line, by the end of the file
        for block in self.blocks():
            self.lines += block.count(b"\n")
            is_cut = not block.endswith(b"\n")
        self.lines += is_cut
        return self.lines

    def _block(self) -> bytes:
        with explained(self.path):
            return self._file.read(_BLOCK)

    def _read(self, count: int, parse: Callable[[str], Any] | None) -> list[Any]:
        texts, size = self._waiting, 0
        while len(texts) < count and size < _MOST and (lines := self._whole_lines()):
            texts, size = texts + self._decoded(lines), size + len(lines)
        texts, self._waiting = texts[:count], texts[count:]
        first = self.lines + 1
        self.lines += len(texts)
        if not self.lines:
            raise InputError(
                f"{self.path} is empty; give a file with one sentence per line"
            )
        if parse is None:
            return texts
        return [self._applied(parse, *line) for line in enumerate(texts, first)]

    def _whole_lines(self) -> bytes:
        """Some complete lines; at the end of the file, the last line too."""
        while block := self._block():
            if not self._known and not self._begun:
                check_encoding(self.path, block[:BEGINNING])
            block = self._begun + block
            end = block.find(b"\n") + 1
            if (end or len(block)) > LONGEST_LINE:
                raise too_long(self.path, self._known + 1)
            end = block.rfind(b"\n") + 1
            block, self._begun = block[:end], block[end:]
            if block:
                return block
        block, self._begun = self._begun, b""
        return block

    def _decoded(self, lines: bytes) -> list[str]:
        first, encoding = self._known + 1, "utf-8" if self._known else "utf-8-sig"
        try:
            text = lines.decode(encoding)
        except UnicodeDecodeError:
            for number, line in enumerate(lines.split(b"\n"), first):
                if fault := utf8_fault(line):
                    self._faults.add(number, fault)
            text = lines.decode(encoding, "replace")
        texts = text.removesuffix("\n").split("\n")
        self._known += len(texts)
        if "\r" in text:
            texts = [line.removesuffix("\r") for line in texts]
        if "\0" in text and self._refuses_nul:
            for number, text in enumerate(texts, first):
                self._applied(check_text, number, text)
        return texts

    def _applied(self, parse: Callable[[str], Any], number: int, text: str) -> Any:
        try:
            return parse(text)
        except LineFault as fault:
            self._faults.add(number, fault)
        return None

    def record(self) -> FileRecord:
        """The record of the file; available once it was read to its end.

        Raises:
            InputError: where the file changed while it was read.
        """
        size, time = self._status.st_size, self._status.st_mtime_ns
        path, digest = os.path.abspath(self.path), self._hash.hexdigest()
        changed = self._status.st_ctime_ns
        record = FileRecord(path, size, time, self.lines, digest, changed)
        if self.bytes_read != size or not record.is_untouched():
            raise InputError(
                f"{self.path} changed while it was being read; start again once it "
                "is complete"
            )
        return record


def record_of(path: str | Path) -> FileRecord:
    """The record of a file, which is read only for that.

    Raises:
        InputError: where it is missing or truncated.
    """
    with LineReader(path) as reader:
        reader.count()
    return reader.record()


def same_content_now(record: FileRecord) -> FileRecord | None:
    """The current record of a file with unchanged content; None otherwise.

    Where size and times are unchanged, the file is not read.
    """
    if record.is_untouched():
        return record
    try:
        if os.stat(record.path).st_size != record.size:
            return None
        current = record_of(record.path)
    except (OSError, InputError):
        return None
    return current if current.same_content(record) else None


class _Watched(io.RawIOBase):
    """A file whose bytes are counted and hashed as they are read."""

    def __init__(self, raw: io.FileIO, reader: LineReader) -> None:
        self._raw = raw
        self._reader = reader

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        count = self._raw.readinto(buffer)
        self._reader.bytes_read += count
        self._reader._hash.update(memoryview(buffer)[:count])
        return count
