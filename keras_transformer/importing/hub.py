"""Models of the Hugging Face hub by name: weights, configs and tokenizer files."""

from __future__ import annotations

import contextlib
import importlib
import re
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.torch_file import import_torch

_SAFETENSORS = "*.safetensors"
#: Only where a repository has no safetensors, as some of OPUS-MT.
_PYTORCH = "pytorch_model*.bin"
#: What else is fetched; no code.
_OTHER_FILES = ("*.json", "*.spm", "*.model", "merges.txt", "README.md")
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_PACKAGE = "huggingface_hub"
_LONGEST = 200  # characters of a message of others


@contextlib.contextmanager
def local(source: str | Path) -> Iterator[Path]:
    """The path of a source; for a name of the hub, of a temporary copy.

    What is downloaded stays in the cache of `huggingface_hub`, so that a second call
    downloads nothing.

    Args:
        source: a path, or a name such as `Helsinki-NLP/opus-mt-en-de`, which is fetched
            where there is no such path and the package `huggingface_hub` is installed.

    Raises:
        InputError: where that package is not installed, the hub does not give the
            files, or it has the weights in PyTorch's form only and PyTorch is missing
            or older than 2.6.
    """
    name = str(source)
    if Path(source).exists() or not _NAME.fullmatch(name):
        yield Path(source)
        return
    package = _package(name)
    cached = _fetch(package, name, _SAFETENSORS)
    if not any(cached.glob(_SAFETENSORS)):
        import_torch(f"{name} has no safetensors on the hub; {_PYTORCH}")
        cached = _fetch(package, name, _PYTORCH)
        if not any(cached.glob(_PYTORCH)):
            raise InputError(
                f"{name} has neither safetensors nor {_PYTORCH} on the hub; import one "
                f"that has"
            )
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        folder = Path(temporary) / name.rpartition("/")[2]
        folder.mkdir()
        for pattern in (_SAFETENSORS, _PYTORCH, *_OTHER_FILES):
            for path in cached.glob(pattern):  # links, and maybe files of others
                shutil.copy(path, folder)
        yield folder


def _fetch(package: Any, name: str, weights: str) -> Path:
    """The folder of the cache that holds the weights of this form, if there are any."""
    try:
        return Path(
            package.snapshot_download(name, allow_patterns=[weights, *_OTHER_FILES])
        )
    except Exception as error:  # of the network, of the hub, of its client
        reason = " ".join(str(error).split())[:_LONGEST]
        raise InputError(
            f"there is no folder {name} here, and the hub does not give a model of "
            f"that name ({reason}); check the path or the name, or get its files "
            f"by hand ({_by_hand(name)}) and import that folder"
        ) from None


def _package(name: str) -> Any:
    try:
        return importlib.import_module(_PACKAGE)
    except ImportError:
        raise InputError(
            f"there is no folder {name} here; if it is a model of the Hugging Face "
            f"hub, run pip install {_PACKAGE}, or get its files by hand "
            f"({_by_hand(name)}) and import that folder"
        ) from None


def _by_hand(name: str) -> str:
    return f"with git and git-lfs: git clone https://huggingface.co/{name}"
