"""Packages of Argos Translate: `.argosmodel` files, which are zip files."""

from __future__ import annotations

import contextlib
import re
import shutil
import stat
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path
from pathlib import PurePosixPath

from keras_transformer.errors import InputError
from keras_transformer.importing.reading.tensor_file import damaged
from keras_transformer.importing.reading.tensor_file import short
from keras_transformer.importing.reading.tensor_file import unreadable
from keras_transformer.importing.reading.zip_entries import ZIP_ERRORS
from keras_transformer.importing.reading.zip_entries import zip_entries

SUFFIX = ".argosmodel"
METADATA = "metadata.json"
#: What an import reads of a package; sentence splitters and whatever else stay packed.
_WANTED = re.compile(
    r"(metadata\.json|README\.md|sentencepiece\.model|bpe\.model"
    r"|model/(model\.bin|[\w.-]+\.(json|txt)))"
)


@contextlib.contextmanager
def unpacked(path: Path) -> Iterator[Path]:
    """The folder of a package, unpacked for a while; any other path as it is.

    Raises:
        InputError: where the file is damaged, would grow to more than a few times its
            size, or names files of other places.
    """
    if path.suffix != SUFFIX or not path.is_file():
        yield path
        return
    try:
        entries = zip_entries(path)
    except OSError as error:
        raise unreadable(path, error) from None
    names = _places(path, entries)
    with tempfile.TemporaryDirectory(prefix="keras-transformer-") as temporary:
        folder = Path(temporary) / path.stem
        try:
            with zipfile.ZipFile(path) as archive:
                for name, entry in names.items():
                    place = folder / name
                    place.parent.mkdir(parents=True, exist_ok=True)
                    with archive.open(entry) as packed, place.open("xb") as file:
                        shutil.copyfileobj(packed, file)
        except ZIP_ERRORS:
            raise damaged(path) from None
        except OSError as error:
            raise InputError(
                f"cannot unpack {path}: {error.strerror or error}; make room in the "
                f"folder for temporary files, or unpack it and give its folder"
            ) from None
        yield folder


def _places(path: Path, entries: list[zipfile.ZipInfo]) -> dict[str, zipfile.ZipInfo]:
    """The entries that are wanted, by their place in the folder of the package."""
    for entry in entries:
        parts = PurePosixPath(entry.filename.replace("\\", "/")).parts
        if ".." in parts or ":" in entry.filename or parts[:1] == ("/",):
            raise damaged(
                path, f"it names a file of another place, {short(entry.filename)}"
            )
        if stat.S_ISLNK(entry.external_attr >> 16):
            raise damaged(path, f"{short(entry.filename)} is a link")
    found = [e.filename for e in entries if PurePosixPath(e.filename).name == METADATA]
    tops = sorted((PurePosixPath(name).parent for name in found), key=str)
    top = next((t for t in tops if len(t.parts) < 2), None)
    if top is None:
        raise damaged(path, f"it has no {METADATA}, as packages of Argos Translate do")
    prefix = "" if top == PurePosixPath() else f"{top}/"
    return {
        name: entry
        for entry in entries
        if entry.filename.startswith(prefix)
        and _WANTED.fullmatch(name := entry.filename.removeprefix(prefix))
    }
