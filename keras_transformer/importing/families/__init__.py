"""The families of models that can be imported, and how each is recognized.

A family is a module of this folder. It has

* `read(source, tensors) -> ForeignModel`: says what the files hold, reading configs and
  vocabularies but no weight;
* where it knows better than `reading.open_tensors` which file holds the weights,
  `open_weights(source) -> TensorFile`.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import NamedTuple

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
        is_in: whether the files of a source without `model_type` are of this family.
    """

    name: str
    module: str
    model_types: tuple[str, ...] = ()
    is_in: Callable[[Source], bool] = lambda source: False

    def open_weights(self, source: Source) -> TensorFile:
        """Opens the weights."""
        opened = getattr(self._module, "open_weights", None)
        return opened(source) if opened else open_tensors(source.path)

    def read(self, source: Source, tensors: TensorFile) -> ForeignModel:
        """What the files hold."""
        return self._module.read(source, tensors)

    @property
    def _module(self) -> ModuleType:
        return importlib.import_module(f"{__name__}.{self.module}")


#: In the order in which they are asked.
FAMILIES = (
    Family("MarianMT", "marian", model_types=("marian",)),
    Family("M2M100 and NLLB", "m2m100", model_types=("m2m_100",)),
    Family("mBART", "mbart", model_types=("mbart",)),
    Family("T5", "t5", model_types=("t5", "mt5")),
)


def family_of(source: Source) -> Family:
    """The family of the files.

    Raises:
        InputError: where it is none of the table, with what can be done.
    """
    known = {name: family for family in FAMILIES for name in family.model_types}
    model_type = source.model_type
    if model_type in known:
        return known[model_type]
    if model_type is not None:
        raise InputError(
            f"{source.folder} is a model of the type {model_type[:100]!r}, which "
            f"cannot be imported; known are {', '.join(sorted(known))}"
        )
    for family in FAMILIES:
        if family.is_in(source):
            return family
    raise InputError(
        f"{source.path} is no model that can be imported: it has no config.json with a "
        f"model_type (known are {', '.join(sorted(known))}); give the folder that was "
        f"downloaded"
    )
