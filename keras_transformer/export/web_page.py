"""A page beside an export to ONNX that translates with it, wholly in the browser.

The page is `export/web`. It needs files of two npm packages; `libraries.json` there has
their versions, and the integrity of each file.
"""

import base64
import hashlib
import json
import shutil
import warnings
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

#: What the page consists of.
FILES = ("index.html", "page.css", "page.js", "libraries.json")
#: What npm writes into the folder where the page finds its packages.
NPM_FILES = ("node_modules", "package.json", "package-lock.json")


def npm_command() -> str:
    """The command that gets the packages into the folder where it runs."""
    packages = (f"{name}@{pin['version']}" for name, pin in _libraries().items())
    return f"npm install --ignore-scripts {' '.join(packages)}"


def check(*tokenizers: Tokenizer, assets: str | Path | None) -> None:
    """Refuses what a page cannot have, before anything is exported.

    Raises:
        InputError: a tokenizer is a list of pieces and merges, or `assets` has not the
            packages in the versions of the page.
    """
    if any(tokenizer.listed is not None for tokenizer in tokenizers):
        raise InputError(
            "the page cuts text with SentencePiece, but a tokenizer of this model is a "
            "list of pieces and merges; export without the page"
        )
    if assets is not None and (problem := _problem(Path(assets))):
        raise InputError(f"{problem}; run there: {npm_command()}")


def write(folder: Path, assets: str | Path | None = None) -> str:
    """Writes the page into the folder of an export, and returns its name.

    Args:
        folder: of the export.
        assets: a folder where npm installed the packages; what the page needs of them
            is copied.
    """
    with resources.as_file(resources.files("keras_transformer.export") / "web") as web:
        for name in FILES:
            shutil.copyfile(web / name, folder / name)
    for path in _paths() if assets is not None else ():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(Path(str(assets)) / path, folder / path)
    return FILES[0]


def warn_of_missing(folder: Path) -> None:
    """Warns where the page of a folder lacks a package, and says how to get it."""
    if problem := _problem(folder):
        warnings.warn(
            f"{problem}; the page needs it: run in {folder}: {npm_command()}",
            stacklevel=3,
        )


def _problem(folder: Path) -> str:
    """What the packages in a folder lack; "" where the page finds all there."""
    for path, integrity in _paths().items():
        try:
            digest = hashlib.sha384((folder / path).read_bytes()).digest()
        except OSError:
            return f"{folder} has no {path}"
        if f"sha384-{base64.b64encode(digest).decode()}" != integrity:
            return f"{folder / path} is of another version"
    return ""


def _paths() -> dict[str, str]:
    """The integrity of each file of the packages, by its path."""
    return {
        f"node_modules/{name}/{file}": integrity
        for name, pin in _libraries().items()
        for file, integrity in pin["files"].items()
    }


@cache
def _libraries() -> dict[str, Any]:
    file = resources.files("keras_transformer.export") / "web" / "libraries.json"
    return json.loads(file.read_text("utf-8"))
