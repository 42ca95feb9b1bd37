"""Reading of CTranslate2's `model.bin`, layouts 2 to 6."""

from __future__ import annotations

import math
import struct
from pathlib import Path
from typing import BinaryIO
from typing import NamedTuple

import ml_dtypes
import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import MOST_TENSORS
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import block
from keras_transformer.importing.reading.tensor_file import check_held
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import unreadable

LAYOUTS = range(2, 7)
_MOST_AXES = 8
#: In the order of their numbers in the file, from layout 4 on.
_DTYPES = tuple(
    np.dtype(name) for name in ("<f4", "<i1", "<i2", "<i4", "<f2", ml_dtypes.bfloat16)
)
#: Before it, the size of a number says its type.
_OLD_DTYPES = {4: _DTYPES[0], 1: _DTYPES[1], 2: _DTYPES[2]}
_QUANTIZED = ("int8", "int16")
_SCALE = "_scale"


class Array(NamedTuple):
    """The declaration of one array.

    Attributes:
        shape: its sizes; none for a number.
        dtype: NumPy's name of the stored numbers, or "bfloat16".
        offset: of its first byte in the file.
        value: of a number.
    """

    shape: tuple[int, ...]
    dtype: str
    offset: int
    value: float | None


class Table(NamedTuple):
    """What a file declares; an alias stands for its array.

    Attributes:
        layout: the version of the format.
        specification: the name of the kind of model, such as "TransformerSpec".
        revision: of the specification.
        arrays: `{name: Array}`.
    """

    layout: int
    specification: str
    revision: int
    arrays: dict[str, Array]


def read_table(path: Path) -> Table:
    """The names, shapes and single numbers of a file; no array is read.

    Raises:
        OSError: where it cannot be read.
        ValueError, struct.error: where it is no such file, is cut off, damaged, or
            declares other sizes than it has.
    """
    with path.open("rb") as file:
        layout = _number(file, "I")
        if layout not in LAYOUTS:
            raise ValueError
        specification, revision = _name(file), _number(file, "I")
        size = path.stat().st_size
        arrays: dict[str, Array] = {}
        for _ in range(_count(file)):
            name = _name(file)
            if name in arrays:
                raise ValueError
            arrays[name] = _array(file, layout, size)
        if layout >= 3:
            _add_aliases(file, arrays)
        if file.tell() != size:
            raise ValueError
    return Table(layout, specification, revision, arrays)


class CTranslate2File(TensorFile):
    """Tensors of a `model.bin`, the scales of int8 and int16 undone.

    The scales themselves are not among `tensors`.

    Attributes:
        specification: the name of the kind of model, such as "TransformerSpec".
        revision: of the specification.

    Raises:
        InputError: where it is no such file, is cut off, damaged, or declares other
            sizes than it has.
    """

    def __init__(self, path: Path) -> None:
        try:
            table = read_table(path)
            check_held(path, path.stat().st_size)
        except OSError as error:
            raise unreadable(path, error) from None
        except InputError:
            raise
        except (struct.error, ValueError):
            raise damaged(path) from None
        self.specification, self.revision = table.specification, table.revision
        self._arrays = table.arrays
        self._scales = {
            name: table.arrays[name + _SCALE]
            for name, array in table.arrays.items()
            if array.dtype in _QUANTIZED and name + _SCALE in table.arrays
        }
        scales = {name + _SCALE for name in self._scales}
        for name, scale in self._scales.items():
            if scale.shape not in ((), (1,), self._arrays[name].shape[:1]):
                raise damaged(path, f"the scales of {name[:100]} do not fit it")
        super().__init__(
            path,
            {
                name: TensorInfo(array.shape, array.dtype)
                for name, array in table.arrays.items()
                if name not in scales
            },
        )

    def number(self, name: str) -> float | None:
        """The value of a single number; None where there is none of that name."""
        array = self._arrays.get(name)
        return None if array is None else array.value

    def is_one(self, *names: str) -> bool:
        """Whether several names stand for one array."""
        return len({self._arrays[name].offset for name in names}) == 1

    def _read(self, name: str) -> np.ndarray:
        values = self._values(self._arrays[name])
        if name not in self._scales:
            return values
        scales = self._values(self._scales[name]).astype("float32")
        if scales.size > 1:
            scales = scales.reshape(-1, *[1] * (values.ndim - 1))
        with np.errstate(divide="ignore", invalid="ignore"):  # is checked later
            return values.astype("float32") / scales.reshape(scales.shape or ())

    def _values(self, array: Array) -> np.ndarray:
        dtype = np.dtype(array.dtype).newbyteorder("<")
        return block(self.path, array.offset, array.shape, dtype)


def _array(file: BinaryIO, layout: int, end: int) -> Array:
    num_axes = _number(file, "B")
    if num_axes > _MOST_AXES:
        raise ValueError
    shape = tuple(_number(file, "I") for _ in range(num_axes))
    code = _number(file, "B")
    if layout >= 4:
        if code >= len(_DTYPES):
            raise ValueError
        dtype = _DTYPES[code]
        size = _number(file, "I")
    else:
        if code not in _OLD_DTYPES:
            raise ValueError
        dtype = _OLD_DTYPES[code]
        size = _number(file, "I") * dtype.itemsize
    offset = file.tell()
    if size != math.prod(shape) * dtype.itemsize or offset + size > end:
        raise ValueError
    value = None
    if shape:
        file.seek(size, 1)
    else:
        value = np.frombuffer(file.read(size), dtype)[0].item()
    return Array(shape, dtype.name, offset, value)


def _add_aliases(file: BinaryIO, arrays: dict[str, Array]) -> None:
    aliases = {}
    for _ in range(_count(file)):
        alias, name = _name(file), _name(file)
        if alias in arrays or name not in arrays:
            raise ValueError
        arrays[alias] = arrays[name]
        aliases[alias] = name
    for alias, name in aliases.items():  # two names of weights share their scales
        if name + _SCALE in arrays:
            arrays.setdefault(alias + _SCALE, arrays[name + _SCALE])


def _count(file: BinaryIO) -> int:
    count: int = _number(file, "I")
    if count > MOST_TENSORS:
        raise ValueError
    return count


def _name(file: BinaryIO) -> str:
    text = file.read(_number(file, "H")).decode("ascii")
    if not text.endswith("\0"):
        raise ValueError
    return text[:-1]


def _number(file: BinaryIO, form: str) -> int:
    number: int = struct.unpack(f"<{form}", file.read(struct.calcsize(f"<{form}")))[0]
    return number
