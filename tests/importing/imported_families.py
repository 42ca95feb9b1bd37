"""Families of imported models: small folders of each, and what each goes out to.

A new family is a row of `FAMILIES`; what it is refused, a row of `REFUSALS`.
docs/import.md shows both as a table.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import ctranslate2_folders
import foreign_folders
import listed_folders
import marian_folders
import multilingual_folders
import numpy as np

from reference.foreign_files import marian_item
from reference.foreign_files import write_marian

#: Whatever a model folder is used for, and the formats that it is exported to.
USES = ("translate", "fine-tune", "serve")
FORMATS = ("SavedModel", "ONNX", "LiteRT", "CTranslate2", "transformers")


class Family(NamedTuple):
    """A family.

    Attributes:
        row: of the table in docs/import.md, where several of these are one.
        write: writes a small folder at a path.
        languages: of the source and of the target; None where nobody has to say it.
    """

    row: str
    write: Callable[[Path], object]
    languages: tuple[str | None, str | None] = (None, None)


def _marian_mt(**options):
    return functools.partial(foreign_folders.marian, layers=1, **options)


def _marian(**options):
    one_layer = {"enc-depth": 1, "dec-depth": 1}
    return functools.partial(marian_folders.marian_npz, **one_layer, **options)


def _firefox(folder):
    """A `.bin` with the recurrent decoder."""
    _, arrays, _ = _marian(autoreg="rnn")(folder)
    with np.load(folder / "model.npz") as file:
        arrays = arrays | {"special:model.yml": file["special:model.yml"]}
    items = {name: marian_item(values) for name, values in arrays.items()}
    (folder / "model.npz").unlink()
    write_marian(folder / "model.bin", items)


def _hub(name, row=None):
    family = multilingual_folders.FAMILIES[name]
    write = functools.partial(multilingual_folders.write, name=name, layers=1)
    return Family(row or name, write, (family.source, family.target))


_PRE_NORM = {"transformer-preprocess": "n", "transformer-postprocess": "da"}
_T5_1_1 = "T5 v1.1, mT5"
_ARGOS = "Argos, CTranslate2 of OpenNMT"
FAMILIES = {
    "MarianMT": Family("MarianMT", _marian_mt()),
    "MarianMT, two vocabularies": Family("MarianMT", _marian_mt(separate=True)),
    "MarianMT, several languages": Family(
        "MarianMT", _marian_mt(languages=("deu", "fra")), (None, "deu")
    ),
    "Marian": Family("Marian", _marian()),
    "Marian, pre-norm": Family("Marian", _marian(**_PRE_NORM)),
    "Marian, two vocabularies": Family(
        "Marian", _marian(**{"tied-embeddings-all": False})
    ),
    "Firefox": Family("Firefox (SSRU)", _firefox),
    "Argos Translate": Family(_ARGOS, ctranslate2_folders.package),
    "M2M100": _hub("M2M100", "M2M100, NLLB"),
    "NLLB": _hub("NLLB", "M2M100, NLLB"),
    "mBART-25": _hub("mBART-25", "mBART-25, mBART-50"),
    "mBART-50": _hub("mBART-50", "mBART-25, mBART-50"),
    "T5": _hub("T5"),
    "T5 v1.1": _hub("T5 v1.1", _T5_1_1),
    "mT5": _hub("mT5", _T5_1_1),
    "byT5": _hub("byT5"),
    "MADLAD-400": _hub("MADLAD-400"),
    "BART": Family("BART", functools.partial(listed_folders.bart, layers=1)),
    "FSMT": Family("FSMT", functools.partial(listed_folders.fsmt, layers=1)),
}

#: (row, format) -> the message; everything else is exported.
REFUSALS = {
    ("Firefox (SSRU)", "CTranslate2"): "does not have decoder ssru",
    ("Firefox (SSRU)", "transformers"): "does not have decoder ssru",
    ("BART", "SavedModel"): "lists of pieces and merges",
    ("FSMT", "SavedModel"): "lists of pieces and merges",
    (_ARGOS, "transformers"): "does not have tie_embeddings none, source_end False",
}

#: Exports that take long; the other cells of these formats wait for EVERY_TEST.
QUICK = {
    "SavedModel": ("Marian, two vocabularies", "BART"),
    "ONNX": ("Firefox",),
    "LiteRT": ("T5",),
}
