"""Reading of Marian's `.bin` files, version 1: float32, float16, int8 and int16.

They are what Bergamot and Firefox use, packed by gzip or not. Matrices of int8 and
int16 are stored transposed and multiplied by a number, which stands behind them.
"""

from __future__ import annotations

import contextlib
import gzip
import struct
import tempfile
import zlib
from pathlib import Path
from typing import BinaryIO
from typing import NamedTuple

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import MOST_TENSORS
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import block
from keras_transformer.importing.reading.tensor_file import check_held
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import num_bytes
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable

VERSION = 1
_MOST_NAME_BYTES = 1000
_MOST_AXES = 8
#: What gzip makes of numbers is hardly smaller; what grows more is no model.
_MOST_GROWTH = 8
_SLACK = 2**20  # bytes
_PACKED = 0x800  # for one kind of processor
#: Numbers of types -> NumPy's.
_PLAIN = {
    0x101: "<i1",
    0x102: "<i2",
    0x104: "<i4",
    0x108: "<i8",
    0x201: "<u1",
    0x202: "<u2",
    0x204: "<u4",
    0x208: "<u8",
    0x402: "<f2",
    0x404: "<f4",
    0x408: "<f8",
}
#: The same of matrices with a multiplier: Bergamot's and Marian's own numbers.
_MULTIPLIED = {0x4101: "<i1", 0x4102: "<i2", 0x10001: "<i1", 0x10002: "<i2"}


class _Item(NamedTuple):
    """The place of a tensor in the file."""

    shape: tuple[int, ...]
    dtype: str
    offset: int
    is_multiplied: bool


class MarianFile(TensorFile):
    """Tensors of a `.bin` of Marian.

    Args:
        path: of the file, for messages too.
        unpacked: where its content lies, if it is packed.

    Raises:
        InputError: where it is no such file, is cut off or damaged, declares more than
            it holds, or is packed for one kind of processor.
    """

    def __init__(self, path: Path, unpacked: Path | None = None) -> None:
        self._content = unpacked or path
        try:
            with self._content.open("rb") as file:
                self._items = _items(path, file)
            check_held(self._content, self._content.stat().st_size)
        except OSError as error:
            raise unreadable(path, error) from None
        except InputError:
            raise
        except (struct.error, ValueError):
            raise damaged(path) from None
        super().__init__(
            path,
            {
                name: TensorInfo(item.shape, np.dtype(item.dtype).name)
                for name, item in self._items.items()
            },
        )

    def _read(self, name: str) -> np.ndarray:
        shape, dtype, offset, is_multiplied = self._items[name]
        if not is_multiplied:
            return block(self._content, offset, shape, dtype)
        is_transposed = "Wemb" not in name
        stored = shape[::-1] if is_transposed else shape
        values = block(self._content, offset, stored, dtype)
        (factor,) = block(self._content, offset + values.nbytes, (1,), "<f4")
        if is_transposed:
            values = values.T
        with np.errstate(divide="ignore", invalid="ignore"):  # is checked later
            return values.astype("float32") / factor


def unpacked(path: Path) -> MarianFile:
    """The tensors of a `.bin.gz`, which is unpacked to a temporary file.

    Raises:
        InputError: as `MarianFile` does, and where it would grow to more than a few
            times its size.
    """
    with contextlib.ExitStack() as opened:
        try:
            name = opened.enter_context(tempfile.TemporaryDirectory(prefix="marian-"))
            copy = Path(name, "model.bin")
            _unpack(path, copy)
        except OSError as error:  # gzip's own too, of what is damaged
            raise unreadable(path, error) from None
        except (EOFError, zlib.error):
            raise damaged(path) from None
        tensors = MarianFile(path, copy)
        tensors.opened = opened.pop_all()
    return tensors


def _unpack(path: Path, copy: Path) -> None:
    most = _MOST_GROWTH * path.stat().st_size + _SLACK
    with gzip.open(path) as packed, copy.open("wb") as file:
        while content := packed.read(2**20):
            if file.tell() + len(content) > most:
                raise damaged(path, f"it would grow to more than {most} bytes")
            file.write(content)


def _items(path: Path, file: BinaryIO) -> dict[str, _Item]:
    version, count = _numbers(file, "QQ")
    if version != VERSION or count > MOST_TENSORS:
        raise ValueError
    heads = [_numbers(file, "QQQQ") for _ in range(count)]
    names = [_name(file, length) for length, *_ in heads]
    shapes = [_shape(file, num_axes) for _, _, num_axes, _ in heads]
    (padding,) = _numbers(file, "Q")
    offset = file.tell() + padding
    items: dict[str, _Item] = {}
    for name, shape, (_, kind, _, size) in zip(names, shapes, heads, strict=True):
        if name in items:
            raise damaged(path, f"it holds {short(name)} twice")
        items[name] = _item(path, name, shape, kind, offset)
        stored = TensorInfo(shape, items[name].dtype)
        if num_bytes(stored) + 4 * items[name].is_multiplied > size:
            raise ValueError
        offset += size
    if offset != file.seek(0, 2):
        raise ValueError
    return items


def _item(
    path: Path, name: str, shape: tuple[int, ...], kind: int, offset: int
) -> _Item:
    if kind in _PLAIN:
        return _Item(shape, _PLAIN[kind], offset, False)
    if kind in _MULTIPLIED:
        return _Item(shape, _MULTIPLIED[kind], offset, True)
    if kind & _PACKED:
        raise InputError(
            f"{path}: the tensor {short(name)} is packed for one kind of processor; "
            f"take the model's .npz, or a .bin of intgemm8 or float32"
        )
    raise damaged(path, f"{short(name)} has the unknown type {kind:#x}")


def _name(file: BinaryIO, length: int) -> str:
    if not 0 < length <= _MOST_NAME_BYTES:
        raise ValueError
    content = file.read(length)
    if len(content) != length or content[-1:] != b"\0":
        raise ValueError
    return content[:-1].decode()


def _shape(file: BinaryIO, num_axes: int) -> tuple[int, ...]:
    if num_axes > _MOST_AXES:
        raise ValueError
    shape = _numbers(file, f"{num_axes}i")
    if min(shape, default=0) < 0:
        raise ValueError
    return shape


def _numbers(file: BinaryIO, form: str) -> tuple[int, ...]:
    form = f"<{form}"
    return struct.unpack(form, file.read(struct.calcsize(form)))
