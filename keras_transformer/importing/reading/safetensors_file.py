"""Reading of `.safetensors` files, through the package of that name.

Its Rust code checks that the tensors cover the file without gap or overlap. What it
leaves open is checked here first: the size of the header, and names that are given
twice.
"""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import safetensors

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import check_held
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import num_bytes
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable

_MOST_HEADER_BYTES = 4 * 2**20  # some thirty thousand tensors
_DTYPES = {
    "BOOL": np.dtype("bool"),
    "U8": np.dtype("uint8"),
    "I8": np.dtype("int8"),
    "I16": np.dtype("int16"),
    "U16": np.dtype("uint16"),
    "I32": np.dtype("int32"),
    "U32": np.dtype("uint32"),
    "I64": np.dtype("int64"),
    "U64": np.dtype("uint64"),
    "F16": np.dtype("float16"),
    "BF16": np.dtype(ml_dtypes.bfloat16),
    "F32": np.dtype("float32"),
    "F64": np.dtype("float64"),
}


class SafetensorsFile(TensorFile):
    """Tensors of one `.safetensors` file.

    Raises:
        InputError: where it is no such file, is damaged or cut off, declares more than
            it holds, or has numbers of a type that models of this package do not use.
    """

    def __init__(self, path: Path) -> None:
        try:
            _check_header(path)
            with _opened(path) as file:
                tensors = {name: _info(path, file, name) for name in file.offset_keys()}
        except OSError as error:
            raise unreadable(path, error) from None
        except safetensors.SafetensorError as error:
            raise damaged(path, _reason(error)) from None
        check_held(path, sum(map(num_bytes, tensors.values())))
        super().__init__(path, tensors)

    def _read(self, name: str) -> np.ndarray:
        try:
            # Opened for each, so that pages of the file do not stay in memory.
            with _opened(self.path) as file:
                return file.get_tensor(name)
        except safetensors.SafetensorError as error:
            raise damaged(self.path, _reason(error)) from None


def _opened(path: Path) -> Any:
    return safetensors.safe_open(path, framework="numpy")


def _check_header(path: Path) -> None:
    with path.open("rb") as file:
        start = file.read(8)
        size = struct.unpack("<Q", start)[0] if len(start) == 8 else 2**64
        if size > min(_MOST_HEADER_BYTES, path.stat().st_size - 8):
            raise damaged(path, "the size of its header is not that of a model")
        header = file.read(size)
    try:
        json.loads(header, object_pairs_hook=_without_twins)
    except _Twin as twin:
        raise damaged(path, f"it declares {twin} twice") from None
    except (RecursionError, ValueError):
        raise damaged(path, "its header is no JSON") from None


class _Twin(Exception):
    """A key that a JSON object has twice."""


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content: dict[str, Any] = {}
    for key, value in pairs:
        if key in content:
            raise _Twin(short(key))
        content[key] = value
    return content


def _info(path: Path, file: Any, name: str) -> TensorInfo:
    part = file.get_slice(name)
    kind = part.get_dtype()
    if kind not in _DTYPES:
        raise InputError(
            f"{path}: the tensor {short(name)} holds numbers of the type {kind}; save "
            f"the model in float32, float16 or bfloat16"
        )
    return TensorInfo(tuple(part.get_shape()), _DTYPES[kind].name)


def _reason(error: Exception) -> str:
    return str(error).removeprefix("Error while deserializing header: ")
