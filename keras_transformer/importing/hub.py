"""Models of the Hugging Face hub by name: safetensors, configs and tokenizer files."""

from __future__ import annotations

import contextlib
import importlib
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError

#: What is fetched; no code, and no pickles.
PATTERNS = (
    "*.safetensors",
    "*.json",
    "*.spm",
    "*.model",
    "merges.txt",
    "README.md",
)
_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[\w.-]+")
_PACKAGE = "huggingface_hub"
_LONGEST = 200  # characters of a message of others


@contextlib.contextmanager
def local(source: str | Path) -> Iterator[Path]:
    """The path of a source; for a name of the hub, of a temporary copy.

    Args:
        source: a path, or a name such as `Helsinki-NLP/opus-mt-en-de`, which is fetched
            where there is no such path and the package `huggingface_hub` is installed.

    Raises:
        InputError: where that package is not installed, or the hub does not give the
            files.
    """
    name = str(source)
    if Path(source).exists() or not _NAME.fullmatch(name):
        yield Path(source)
        return
    package = _package(name)
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        folder = Path(temporary) / name.rpartition("/")[2]
        try:
            package.snapshot_download(
                name, local_dir=folder, allow_patterns=list(PATTERNS)
            )
        except Exception as error:  # of the network, of the hub, of its client
            reason = " ".join(str(error).split())[:_LONGEST]
            raise InputError(
                f"there is no folder {name} here, and the hub does not give a model of "
                f"that name ({reason}); check the path or the name, or get its files "
                f"by hand ({_by_hand(name)}) and import that folder"
            ) from None
        if not any(folder.glob("*.safetensors")):
            raise InputError(
                f"the hub has no safetensors of {name}; get all its files "
                f"({_by_hand(name)}) and import that folder"
            )
        yield folder


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
