"""Model folders given on the command line: checked and loaded."""

from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.cli import backend
from keras_transformer.errors import InputError

#: Ends of the names of files that can be imported.
_FOREIGN = (".npz", ".bin", ".bin.gz", ".argosmodel", ".safetensors")

if TYPE_CHECKING:
    from keras_transformer.translator import Translator


def load(
    folder: Path,
    *others: Path,
    source_language: str | None = None,
    target_language: str | None = None,
) -> "Translator":
    """The translator of a model folder, or of several as an ensemble."""
    for path in (folder, *others):
        check(path, "a model folder")
    backend.activate()
    from keras_transformer.translator import Translator

    codes = {"source_language": source_language, "target_language": target_language}
    set_codes = {name: code for name, code in codes.items() if code is not None}
    return Translator.load(folder, *others, **set_codes)


def check(path: Path, kind: str) -> None:
    """Refuses a path that is not a folder, before the backend loads."""
    if path.is_file() and path.name.endswith(_FOREIGN):
        raise InputError(
            f"{path} is a file of another toolkit; run keras-transformer import {path} "
            f"--output FOLDER, and give FOLDER"
        )
    if not path.is_dir():
        raise InputError(f"there is no folder {path}; give {kind} that training wrote")
