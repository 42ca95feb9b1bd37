"""Choice of the reader for a file or folder: by content, never by its name alone."""

from __future__ import annotations

import re
import struct
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.importing.reading.safetensors_file import SafetensorsFile
from keras_transformer.importing.reading.shards import Shards
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import unreadable

#: Files of weights in the order of preference: those of folders of `transformers`.
_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
)
_INDEX = ".index.json"
_POINTER = b"version https://git-lfs.github.com/spec/"


def open_tensors(path: str | Path) -> TensorFile:
    """Opens the weights of another toolkit, for reading tensor by tensor.

    Args:
        path: a folder, which is searched for its weights, or one file of weights:
            `.safetensors` or the `.index.json` of several.

    Returns:
        A context manager: `tensors` says what there is, `read(name)` gives one.

    Raises:
        InputError: where there are no weights, or none that can be read safely: what
            is cut off, damaged, declares more than it holds, or leads out of the
            folder.

    Example:
        ```python
        with open_tensors("opus-mt-en-de") as file:
            shape, dtype = file.tensors["model.shared.weight"]
            embeddings = file.read("model.shared.weight")
        ```
    """
    path = Path(path)
    if path.is_dir():
        path = _weights_of(path)
    elif not path.is_file():
        raise InputError(f"{path} is no file and no folder; check the path")
    if path.name.endswith(_INDEX):
        return Shards(path, _open_file)
    return _open_file(path)


def _weights_of(folder: Path) -> Path:
    for name in _NAMES:
        path = plain_file(folder, name)
        if path.exists():
            return path
    raise InputError(
        f"{folder} holds no weights ({', '.join(_NAMES)}); download them too, or name "
        f"the file of weights"
    )


def _open_file(path: Path) -> TensorFile:
    try:
        with path.open("rb") as file:
            start = file.read(512)
        size = path.stat().st_size
    except OSError as error:
        raise unreadable(path, error) from None
    _refuse_pointer(path, start)
    if start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] < size:
        return SafetensorsFile(path)
    if path.suffix == ".safetensors":
        return SafetensorsFile(path)  # which says what is wrong with it
    raise InputError(
        f"{path} is no file of weights that can be read; give .safetensors"
    )


def _refuse_pointer(path: Path, start: bytes) -> None:
    """Refuses what Git leaves in the place of a large file that was not fetched."""
    if start.startswith(_POINTER):
        size = re.search(rb"^size (\d{1,18})$", start, re.MULTILINE)
        of = f" of {int(size[1])} bytes" if size else ""
        raise InputError(
            f"{path} is not the file but Git's pointer to one{of}; run git lfs pull in "
            f"its folder"
        )
