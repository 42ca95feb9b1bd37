"""Protocol of all tensor files: names, shapes, dtypes, and one tensor at a time."""

from __future__ import annotations

import abc
import contextlib
import math
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from types import TracebackType
from typing import NamedTuple
from typing import Self

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import data_bytes
from keras_transformer.tensors import Shape

#: More than any translation model has.
MOST_TENSORS = 2**16
#: The most numbers a shape may have; NumPy's arrays have at most 64.
_MOST_AXES = 8
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
            if len(shape) > _MOST_AXES:
                raise InputError(
                    f"{path} declares {len(shape)} axes of the tensor {short(name)}; "
                    f"download the file again"
                )
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
            return values
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


def declared_bytes(shape: Shape, item_bytes: int) -> int:
    """The bytes of a tensor, an empty axis counted as one of length 1."""
    return math.prod(max(1, size) for size in shape) * item_bytes


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
