"""A model folder of the command line, loaded."""

from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli import backend
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.translator import Translator


def load(folder: Path, *others: Path) -> "Translator":
    """The model of a folder, or of several together, on the backend of `backend`."""
    for path in (folder, *others):
        check(path, "a model folder")
    backend.activate()
    from keras_transformer.translator import Translator

    return Translator.load(folder, *others)


def check(path: Path, kind: str) -> None:
    """Refuses what is no folder before anything heavy loads."""
    if not path.is_dir():
        raise InputError(f"there is no folder {path}; give {kind} that training wrote")
