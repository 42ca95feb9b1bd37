"""Choice of the reader for a file or folder: by content, never by its name alone."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable
from fnmatch import fnmatch
from pathlib import Path

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.importing.reading.ctranslate2_file import LAYOUTS
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File
from keras_transformer.importing.reading.marian_file import VERSION
from keras_transformer.importing.reading.marian_file import MarianFile
from keras_transformer.importing.reading.marian_file import unpacked
from keras_transformer.importing.reading.npz_file import NpzFile
from keras_transformer.importing.reading.safetensors_file import SafetensorsFile
from keras_transformer.importing.reading.shards import Shards
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import unreadable
from keras_transformer.importing.reading.torch_file import TorchFile
from keras_transformer.importing.reading.zip_entries import zip_entries

#: Files of weights in the order of preference: those of folders of `transformers`, and
#: of CTranslate2, which has the last.
_NAMES = (
    "model.safetensors",
    "model.safetensors.index.json",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "model.bin",
)
#: Where there is none of these, the only file of one of these forms. Marian's folders
#: have other names for each model; its shortlists and optimizer are no weights.
_FORMS = ("*.safetensors", "*.npz", "*.bin", "*.bin.gz")
_NO_WEIGHTS = ("*.optimizer.npz", "lex.*", "*.s2t.bin*", "training_args.bin")
_INDEX = ".index.json"
_MOST_HEADER = 2**32  # bytes; what a pickle or an archive begins with says more
_POINTER = b"version https://git-lfs.github.com/spec/"


def open_tensors(path: str | Path) -> TensorFile:
    """Opens the weights of another toolkit, for reading tensor by tensor.

    Args:
        path: a folder, which is searched for its weights, or one file of weights:
            safetensors or the `.index.json` of several, PyTorch's `.bin`, NumPy's
            `.npz` (Marian), Marian's `.bin` or `.bin.gz` (Bergamot, Firefox), or
            CTranslate2's `model.bin`. Its content says which it is.

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
    names = {path.name for form in _FORMS for path in folder.glob(form)}
    names = {n for n in names if not any(fnmatch(n, other) for other in _NO_WEIGHTS)}
    if len(names) > 1:
        raise InputError(
            f"{folder} holds several files of weights: {', '.join(sorted(names)[:5])}; "
            f"name one"
        )
    if names:
        return plain_file(folder, names.pop())
    raise InputError(
        f"{folder} holds no file of weights, such as {_NAMES[0]}; get all files of the "
        f"model, or name the file"
    )


def _open_file(path: Path) -> TensorFile:
    try:
        with path.open("rb") as file:
            start = file.read(512)
        reader = _reader(path, start)
    except OSError as error:
        raise unreadable(path, error) from None
    if reader is None:
        raise InputError(
            f"{path} is no file of weights that can be read; give safetensors, a .npz "
            f"or .bin of Marian, PyTorch's .bin or CTranslate2's model.bin"
        )
    return reader(path)


def _reader(path: Path, start: bytes) -> Callable[[Path], TensorFile] | None:
    """What reads a file with this beginning; None for nothing."""
    if start.startswith(_POINTER):
        raise _pointer(path, start)
    # Before the marks of other files, which the size of a header may begin with.
    if _begins_safetensors(start):
        return SafetensorsFile
    if start.startswith(b"PK"):
        names = {entry.filename for entry in zip_entries(path)}
        is_numpy = all(name.endswith(".npy") for name in names)
        return NpzFile if is_numpy else TorchFile
    if start.startswith(b"\x80"):  # a pickle
        return TorchFile
    if start.startswith(b"\x1f\x8b"):
        return unpacked
    if start[:8] == struct.pack("<Q", VERSION):
        return MarianFile
    if path.suffix == ".safetensors":  # which says what is wrong with it
        return SafetensorsFile
    if len(start) > 8 and struct.unpack("<I", start[:4])[0] in LAYOUTS:
        return CTranslate2File
    return None


def _begins_safetensors(start: bytes) -> bool:
    """Whether it begins with the size of a JSON header, and with that header."""
    return start[8:9] == b"{" and struct.unpack("<Q", start[:8])[0] < _MOST_HEADER


def _pointer(path: Path, start: bytes) -> InputError:
    """The error of what Git leaves in the place of a large file that it did not get."""
    size = re.search(rb"^size (\d{1,18})$", start, re.MULTILINE)
    of = f" of {int(size[1])} bytes" if size else ""
    return InputError(
        f"{path} is not the file but Git's pointer to one{of}; run git lfs pull in its "
        f"folder"
    )
