"""Reading of `.npz` files of NumPy, those of Marian among them; without pickles."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import IO
from typing import Any

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import num_bytes
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable
from keras_transformer.importing.reading.zip_entries import ZIP_ERRORS
from keras_transformer.importing.reading.zip_entries import zip_entries

_SUFFIX = ".npy"
_PACKINGS = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)
_MOST_HEADER_BYTES = 10_000  # as NumPy has it


class NpzFile(TensorFile):
    """Tensors of an `.npz` file.

    Raises:
        InputError: where it is no such file, is cut off, would grow to more than a few
            times its size, or holds pickled objects.
    """

    def __init__(self, path: Path) -> None:
        try:
            entries = zip_entries(path)
            with zipfile.ZipFile(path) as archive:
                tensors = dict(_declared(path, archive, entry) for entry in entries)
        except OSError as error:
            raise unreadable(path, error) from None
        except InputError:
            raise
        except ZIP_ERRORS:
            raise damaged(path) from None
        super().__init__(path, tensors)

    def _read(self, name: str) -> np.ndarray:
        try:
            with (
                zipfile.ZipFile(self.path) as archive,
                archive.open(name + _SUFFIX) as file,
            ):
                return np.lib.format.read_array(file, allow_pickle=False)
        except ZIP_ERRORS:
            raise damaged(self.path, f"{short(name)} is damaged") from None


def _declared(
    path: Path, archive: zipfile.ZipFile, entry: zipfile.ZipInfo
) -> tuple[str, TensorInfo]:
    """The name and header of an array, which must be of the size of the entry."""
    name = entry.filename.removesuffix(_SUFFIX)
    if name == entry.filename or entry.compress_type not in _PACKINGS:
        raise damaged(path, f"{short(entry.filename)} is no array of NumPy")
    with archive.open(entry) as file:
        shape, dtype = _header(file)
        start = file.tell()
    if dtype.hasobject:
        raise damaged(path, f"{short(name)} holds pickled objects, which are not run")
    if dtype.kind not in "fiub":
        raise damaged(path, f"{short(name)} holds {dtype.name}, no numbers of a model")
    info = TensorInfo(shape, dtype.name)
    if start + num_bytes(info) != entry.file_size:
        raise damaged(path, f"{short(name)} is not of the size that it declares")
    return name, info


def _header(file: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = np.lib.format.read_magic(file)
    if version == (1, 0):
        read = np.lib.format.read_array_header_1_0
    elif version == (2, 0):
        read = np.lib.format.read_array_header_2_0
    else:
        raise ValueError
    shape, _, dtype = read(file, max_header_size=_MOST_HEADER_BYTES)
    return shape, dtype
