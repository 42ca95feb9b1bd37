"""Reading of PyTorch's files (`pytorch_model.bin`), by `torch.load(weights_only=True)`.

Such a file holds a pickle, which is a program. It is looked through before PyTorch has
it: it may name nothing but what tensors are made of.
"""

from __future__ import annotations

import io
import pickletools
import re
import warnings
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import TensorFile
from keras_transformer.importing.reading.tensor_file import TensorInfo
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable
from keras_transformer.importing.reading.zip_entries import ZIP_ERRORS
from keras_transformer.importing.reading.zip_entries import zip_entries

#: How a file before PyTorch 1.6 begins: no zip file, but five pickles and the data.
OLD_BEGINNING = b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19."
#: The first version whose `weights_only` is safe (CVE-2025-32434).
_SAFE_VERSION = (2, 6)
_PICKLE = "/data.pkl"
_MOST_PICKLE_BYTES = 2 * 2**20  # some fifteen thousand tensors
_NUM_OLD_PICKLES = 5
_HARMLESS = re.compile(
    r"collections\.OrderedDict|torch\.nn\.parameter\.Parameter"
    r"|torch\.(Bool|Byte|Char|Short|Int|Long|Half|BFloat16|Float|Double)Storage"
    r"|torch\._utils\._rebuild_(tensor|tensor_v2|parameter)"
)
_DTYPES = {"float16", "bfloat16", "float32", "float64"}
_DTYPES |= {"bool", "uint8", "int8", "int16", "int32", "int64"}
#: Pages of a mapped file that were read stay in memory until it is mapped anew.
_MOST_MAPPED_BYTES = 2**28
_WAY_OUT = (
    "save the weights alone, as safetensors; a checkpoint of fairseq or OpenNMT is "
    "converted by CTranslate2 or transformers first"
)


class TorchFile(TensorFile):
    """Tensors of one file of PyTorch, mapped into memory where it is of the zip form.

    Of the form before PyTorch 1.6, all of the file is in memory while it is open.

    Raises:
        InputError: where PyTorch is missing or too old, the file is damaged or cut off,
            asks for a class, or holds something else than dense tensors.
    """

    def __init__(self, path: Path) -> None:
        try:
            with path.open("rb") as file:
                self._is_zip = file.read(2) == b"PK"
            _check_pickles(path, self._is_zip)
        except OSError as error:
            raise unreadable(path, error) from None
        self._read_bytes = 0
        self._state = _load(path, self._is_zip)
        tensors = {name: _info(path, name, v) for name, v in self._state.items()}
        super().__init__(path, tensors)
        self.opened.callback(self._state.clear)

    def _read(self, name: str) -> np.ndarray:
        if self._read_bytes > _MOST_MAPPED_BYTES:
            self._state.clear()  # before it is mapped again
            self._state.update(_load(self.path, self._is_zip))
            self._read_bytes = 0
        tensor = self._state[name].detach()
        if self.tensors[name].dtype in ("float16", "bfloat16", "float64"):
            values = tensor.float().numpy()
        else:
            values = tensor.numpy()
        if self._is_zip:
            self._read_bytes += tensor.nbytes
            return np.array(values)  # no view of the mapped file
        return values


def import_torch(file: str | Path) -> Any:
    """The module `torch`, to read this file.

    Raises:
        InputError: where PyTorch is missing, or reads files from others unsafely.
    """
    try:
        import torch
    except ImportError:
        raise InputError(
            f"{file} is a file of PyTorch, which is not installed; run pip install "
            f"torch, or take safetensors where the model has some"
        ) from None
    version = tuple(int(part) for part in re.findall(r"\d+", torch.__version__)[:2])
    if version < _SAFE_VERSION:
        raise InputError(
            f"{file}: PyTorch {torch.__version__} does not read files from others "
            f"safely; update PyTorch to 2.6 or later, or take safetensors where the "
            f"model has some"
        )
    return torch


def _check_pickles(path: Path, is_zip: bool) -> None:
    """Refuses a pickle that asks for anything but tensors, naming what it asks for."""
    try:
        file = _zipped_pickle(path) if is_zip else _beginning(path)
        for _ in range(1 if is_zip else _NUM_OLD_PICKLES):
            for name in _names(file):
                if not _HARMLESS.fullmatch(name):
                    raise InputError(
                        f"{path} asks for {short(name)} to be run, which a file of "
                        f"weights does not need; {_WAY_OUT}"
                    )
    except InputError:
        raise
    except ZIP_ERRORS:
        raise damaged(path, "it is cut off, damaged, or no file of weights") from None


def _zipped_pickle(path: Path) -> io.BytesIO:
    entries = zip_entries(path)
    pickles = [entry for entry in entries if entry.filename.endswith(_PICKLE)]
    if len(pickles) != 1 or pickles[0].file_size > _MOST_PICKLE_BYTES:
        raise ValueError
    if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
        raise ValueError  # PyTorch packs none
    with zipfile.ZipFile(path) as archive:
        return io.BytesIO(archive.read(pickles[0]))


def _beginning(path: Path) -> io.BytesIO:
    with path.open("rb") as file:
        return io.BytesIO(file.read(_MOST_PICKLE_BYTES))


def _names(file: io.BytesIO) -> Iterator[str]:
    """The names of what the next pickle of a file would import."""
    strings = ["", ""]
    for operation, argument, _ in pickletools.genops(file):
        if operation.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".", 1)
        elif operation.name == "STACK_GLOBAL":
            yield ".".join(strings)
        elif "EXT" in operation.name:
            yield f"{operation.name} {argument}"
        if isinstance(argument, str):
            strings = [strings[1], argument]


def _load(path: Path, is_zip: bool) -> dict[str, Any]:
    torch = import_torch(path)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            state = torch.load(path, "cpu", weights_only=True, mmap=is_zip)
    except Exception:  # of many kinds, with advice that is not safe
        raise damaged(path, "PyTorch does not read it as weights alone") from None
    is_named = isinstance(state, dict) and all(isinstance(name, str) for name in state)
    if not is_named:
        raise damaged(path, "it holds no tensors by name")
    return dict(state)


def _info(path: Path, name: str, value: Any) -> TensorInfo:
    torch = import_torch(path)
    if not isinstance(value, torch.Tensor):
        raise InputError(f"{path} holds {short(name)}, which is no tensor; {_WAY_OUT}")
    dtype = str(value.dtype).removeprefix("torch.")
    is_dense = value.layout == torch.strided and value.device.type == "cpu"
    if dtype not in _DTYPES or not is_dense:
        raise damaged(path, f"{short(name)} holds {dtype}, no numbers of a model")
    if value.nbytes > value.untyped_storage().nbytes():
        raise damaged(path, f"{short(name)} declares more numbers than are stored")
    return TensorInfo(tuple(value.shape), dtype)
