"""The families of models that can be imported, and how each is recognized.

A family is a module of this folder. It has

* `read(source, tensors) -> ForeignModel`: says what the files hold, reading configs and
  vocabularies but no weight;
* where it knows better than `reading.open_tensors` which file holds the weights,
  `open_weights(source) -> TensorFile`;
* where no `model_type` names it, `is_in(source) -> bool`, by the names of the files.
"""

from __future__ import annotations

import importlib
from types import ModuleType
from typing import NamedTuple

from keras_transformer.config.transformers_layout import OWN_KEY
from keras_transformer.errors import InputError
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.reading import open_tensors
from keras_transformer.importing.source import Source


class Family(NamedTuple):
    """A row of the table of families.

    Attributes:
        name: what people call such models.
        module: of this folder.
        model_types: as `config.json` of a folder of `transformers` names it.
        takes_tokenizers: whether tokenizers are given beside its files.
    """

    name: str
    module: str
    model_types: tuple[str, ...] = ()
    takes_tokenizers: bool = False

    def open_weights(self, source: Source) -> TensorFile:
        """Opens the weights."""
        opened = getattr(self._module, "open_weights", None)
        return opened(source) if opened else open_tensors(source.path)

    def read(self, source: Source, tensors: TensorFile) -> ForeignModel:
        """What the files hold."""
        return self._module.read(source, tensors)

    def is_in(self, source: Source) -> bool:
        """Whether files without `model_type` are of this family, by their names."""
        asked = getattr(self._module, "is_in", None)
        return asked is not None and asked(source)

    @property
    def _module(self) -> ModuleType:
        return importlib.import_module(f"{__name__}.{self.module}")


#: Of any `model_type`: what this package exported to `transformers`.
OWN = Family("keras-transformer", "own")

#: In the order in which they are asked.
FAMILIES = (
    Family("MarianMT", "marian", model_types=("marian",)),
    Family("M2M100 and NLLB", "m2m100", model_types=("m2m_100",)),
    Family("mBART", "mbart", model_types=("mbart",)),
    Family("BART", "bart", model_types=("bart",)),
    Family("FSMT", "fsmt", model_types=("fsmt",)),
    Family("T5", "t5", model_types=("t5", "mt5")),
    Family("CTranslate2", "ctranslate2", takes_tokenizers=True),
    Family("Marian", "marian_files"),
)


#: Types that look like a known one, and why they are none.
_OTHERS = {
    "nllb-moe": "its layers are mixtures of experts",
    "switch_transformers": "its layers are mixtures of experts",
    "umt5": "each of its layers has relative positions of its own",
}
_PLAIN_WAY = "translate with transformers"
#: Checkpoints of training programs, which only these programs read.
_CHECKPOINT = (
    "{path} is a checkpoint of PyTorch, such as fairseq and OpenNMT-py write, which "
    "only their own code reads; convert it with ct2-fairseq-converter or "
    "ct2-opennmt-py-converter of CTranslate2, or for transformers, and import that "
    "folder"
)


def family_of(source: Source) -> Family:
    """The family of the files.

    Raises:
        InputError: where it is none of the table, with what can be done.
    """
    if OWN_KEY in source.config:
        return OWN
    known = {name: family for family in FAMILIES for name in family.model_types}
    model_type = source.model_type
    if model_type in known:
        return known[model_type]
    if model_type is not None:
        name = model_type[:100]
        reason = _OTHERS.get(name, f"known are {', '.join(sorted(known))}")
        if source.names_code:
            reason += ", and code of the folder (auto_map) is never run"
        raise InputError(
            f"{source.folder} is a model of the type {name!r}, which cannot be "
            f"imported: {reason}; {_PLAIN_WAY}"
        )
    for family in FAMILIES:
        if family.is_in(source):
            return family
    checkpoints = source.names("*.pt", "*.pt.gz")
    if source.path.suffix == ".pt" or checkpoints:
        raise InputError(_CHECKPOINT.format(path=source.path))
    raise InputError(
        f"{source.path} is no model that can be imported: it has no config.json with a "
        f"model_type (known are {', '.join(sorted(known))}) and no files of another "
        f"toolkit that docs/import.md lists; give the folder that was downloaded"
    )
