"""Directory of a zip file of a stranger, read before anything is unpacked."""

from __future__ import annotations

import io
import os
import zipfile
import zlib
from pathlib import Path

from keras_transformer.importing.reading.tensor_file import MOST_TENSORS
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import short

#: What `zipfile` raises where a file is damaged, encrypted, or packed in other ways.
ZIP_ERRORS = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    NotImplementedError,
    RuntimeError,
    ValueError,
)
_MOST_DIRECTORY_BYTES = 8 * 2**20
#: Numbers hardly shrink: what would grow more than this is no file of weights.
_MOST_GROWTH = 4
_SLACK = 2**20  # bytes


class _Bounded(io.FileIO):
    """A file that gives `zipfile` no directory of gigabytes."""

    def read(self, size: int | None = -1, /) -> bytes:
        if size is None or size < 0:
            size = os.fstat(self.fileno()).st_size - self.tell()
        if size > _MOST_DIRECTORY_BYTES:
            raise zipfile.BadZipFile
        return super().read(size) or b""


def zip_entries(path: Path) -> list[zipfile.ZipInfo]:
    """The entries of a zip file with the sizes that they declare; none is unpacked.

    Raises:
        InputError: where it is no zip file, is cut off, has a name twice, or would
            grow to more than a few times its size.
        OSError: where it cannot be read.
    """
    try:
        with _Bounded(path) as file, zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except ZIP_ERRORS:
        raise damaged(path) from None
    if len(entries) > MOST_TENSORS:
        raise damaged(path, f"it has {len(entries)} entries")
    names: set[str] = set()
    for entry in entries:
        if entry.filename in names:
            raise damaged(path, f"it holds {short(entry.filename)} twice")
        if entry.flag_bits & 1:
            raise damaged(path, f"{short(entry.filename)} is encrypted")
        names.add(entry.filename)
    size = path.stat().st_size
    grown = sum(entry.file_size for entry in entries)
    if grown > _MOST_GROWTH * size + _SLACK:
        raise damaged(path, f"its {size} bytes would grow to {grown}")
    return entries
