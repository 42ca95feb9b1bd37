"""Protocol of all tensor files: names, shapes, dtypes, and one tensor at a time."""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from types import TracebackType
from typing import Any
from typing import NamedTuple
from typing import Self

import ml_dtypes  # noqa: F401  # so that NumPy knows bfloat16
import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import data_bytes
from keras_transformer.tensors import Shape

#: More than any translation model has.
MOST_TENSORS = 2**16
_MOST_AXES = 8
_MOST_NUMBERS = 2**48
#: A file may be that many times larger than what is stored of it: zeros may be holes.
_MOST_HOLES = 4
_SLACK = 2**20  # bytes


class TensorInfo(NamedTuple):
    """What a file says of a tensor.

    Attributes:
        shape: the shape of what `read` returns.
        dtype: NumPy's name of the stored numbers, or "bfloat16".
    """

    shape: Shape
    dtype: str


class TensorFile(abc.ABC):
    """Tensors of a file, or of a folder of shards; a context manager.

    Opening it reads names and shapes. A tensor is read when it is asked for, and
    nothing of it is kept, so that the memory needed is that of one tensor.

    Attributes:
        path: the file, or the index of the shards, for messages.
        tensors: `{name: TensorInfo}`, in the order of the file.
        opened: what `close` closes.
    """

    def __init__(self, path: Path, tensors: Mapping[str, TensorInfo]) -> None:
        if len(tensors) > MOST_TENSORS:
            raise InputError(
                f"{path} declares {len(tensors)} tensors, more than a translation "
                f"model has; download the file again"
            )
        for name, (shape, _) in tensors.items():
            if (
                len(shape) > _MOST_AXES
                or min(shape, default=0) < 0
                or (math.prod(size or 1 for size in shape) > _MOST_NUMBERS)
            ):
                raise damaged(path, f"no tensor has the shape that {short(name)} has")
        self.path = path
        self.opened = contextlib.ExitStack()
        self.tensors: Mapping[str, TensorInfo] = MappingProxyType(dict(tensors))

    def read(self, name: str) -> np.ndarray:
        """The values of a tensor: float32 for all that are floats, else as stored.

        Args:
            name: one of `tensors`; another is a KeyError.

        Raises:
            InputError: where they cannot be read.
        """
        shape = self.tensors[name].shape
        try:
            values = self._read(name)
        except OSError as error:
            raise unreadable(self.path, error) from None
        if values.shape != tuple(shape):
            raise damaged(self.path, f"{short(name)} is not as declared")
        if values.dtype.kind in "iub":
            return values.astype(values.dtype.newbyteorder("="), copy=False)
        with np.errstate(over="ignore"):  # of float64; what is read is checked later
            return values.astype(np.float32, copy=False)

    def text(self, name: str) -> str:
        """The text in a tensor of bytes, such as Marian's `special:model.yml`.

        Raises:
            InputError: where it is no UTF-8.
        """
        values = self.read(name)
        if values.dtype.itemsize != 1:
            raise damaged(self.path, f"{short(name)} holds no text")
        try:
            return values.tobytes().rstrip(b"\0").decode()
        except UnicodeDecodeError:
            raise damaged(self.path, f"{short(name)} holds no text") from None

    @abc.abstractmethod
    def _read(self, name: str) -> np.ndarray:
        """The values of a tensor in their own type, or as float32."""

    def close(self) -> None:
        """Closes what is open. Nothing can be read after it."""
        self.opened.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def num_bytes(info: TensorInfo) -> int:
    """The bytes of the numbers of a tensor as they are stored."""
    return math.prod(info.shape) * np.dtype(info.dtype).itemsize


def block(path: Path, offset: int, shape: Shape, dtype: Any) -> np.ndarray:
    """Numbers that lie one after the other in a file.

    Args:
        path: of the file.
        offset: of the first, in bytes.
        shape: of the array.
        dtype: NumPy's, with the order of bytes.

    Raises:
        InputError: where the file ends before.
    """
    count = math.prod(shape)
    if count == 0:
        return np.zeros(shape, dtype)
    values = np.fromfile(path, dtype, count, offset=offset)
    if values.size != count:
        raise damaged(path)
    return values.reshape(shape)


def check_held(path: Path, declared: int) -> None:
    """Refuses a file that declares more bytes than it holds, before memory is taken.

    Raises:
        InputError: there, or where the file cannot be read.
    """
    try:
        held, size = data_bytes(path), path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None
    if declared > size or declared > _MOST_HOLES * held + _SLACK:
        raise InputError(
            f"{path} holds {min(held, size)} bytes but declares {declared}: it is cut "
            f"off or damaged; download it again"
        )


def short(name: str) -> str:
    """A name from a file, quoted, for one line of a message."""
    return repr(name[:100])


def damaged(path: Path, problem: str = "it is cut off or damaged") -> InputError:
    """The error of a file whose content is not what its kind says."""
    problem = " ".join(problem.split())[:200]
    return InputError(f"cannot read {path}: {problem}; download the file again")


def unreadable(path: Path, error: OSError) -> InputError:
    """The error of a file that the system does not give."""
    return InputError(
        f"cannot read {path}: {error.strerror or error}; check the path and the disk"
    )
