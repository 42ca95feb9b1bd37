"""Checks of an import: every tensor is used, none is missing, shapes fit."""

from __future__ import annotations

import fnmatch
import hashlib
import math
from collections.abc import Iterator
from collections.abc import Mapping

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.foreign_model import Weight
from keras_transformer.importing.reading import TensorFile
from keras_transformer.tensors import Shape

_SHOWN = 100  # characters of a name from a file


def check_names(model: ForeignModel, tensors: TensorFile) -> None:
    """Refuses a file that lacks a tensor, or has one that nothing uses.

    Raises:
        InputError: naming the first.
    """
    used = {name for weight in model.weights.values() for name in weight.names}
    for name in sorted(used):
        if name not in tensors.tensors:
            raise InputError(
                f"{tensors.path} lacks the tensor {name!r} of a {model.family} model; "
                f"get all files of the model again"
            )
    known = used.union(*model.equal)
    for name in sorted(tensors.tensors.keys() - known):
        if not any(fnmatch.fnmatchcase(name, p) for p in model.ignorable):
            raise InputError(
                f"{tensors.path} holds the tensor {name[:_SHOWN]!r}, which no "
                f"{model.family} model that can be imported has: without it the "
                f"translations would not be the model's; translate with the toolkit "
                f"that it comes from"
            )


def check_declared(config: TransformerConfig, tensors: TensorFile) -> None:
    """Refuses a config that declares far more weights than the file holds.

    It comes before anything is made by the config, such as a piece for each row of a
    matrix. `check_sizes` is exact; a bias may be left out of the file until then.

    Raises:
        InputError: with both numbers.
    """
    held = sum(math.prod(info.shape) for info in tensors.tensors.values())
    if config.num_weights > 2 * held:
        raise _other_config(tensors, held, config)


def check_sizes(model: ForeignModel, tensors: TensorFile) -> None:
    """Refuses tensors that do not add up to the model of the config.

    Raises:
        InputError: naming the first that fits nowhere, or both numbers.
    """
    shapes = [_shape(*item, tensors) for item in model.weights.items()]
    total = sum(map(math.prod, shapes))
    if total != model.config.num_weights:
        raise _other_config(tensors, total, model.config)


def check_shapes(
    model: ForeignModel, tensors: TensorFile, shapes: Mapping[str, Shape]
) -> None:
    """Refuses tensors of other shapes than those of the model of the config.

    Args:
        model: what the family found.
        tensors: the file of weights.
        shapes: by path, as the model has them.

    Raises:
        InputError: naming the first.
        RuntimeError: the family gives other weights than the model has: a mistake in
            its module.
    """
    if odd := model.weights.keys() ^ shapes.keys():
        raise RuntimeError(f"{model.family}: the paths {sorted(odd)[:5]} do not fit")
    for path, weight in model.weights.items():
        shape = _shape(path, weight, tensors)
        if shape != tuple(shapes[path]):
            raise InputError(
                f"{tensors.path}: {_named(weight)} gives the weight {path!r} the "
                f"shape {shape}, but the model of its config needs "
                f"{tuple(shapes[path])}; use the files that belong together"
            )


def check_ties(model: ForeignModel, tensors: TensorFile) -> None:
    """Refuses a file in which a matrix that is tied stands twice, with other numbers.

    Raises:
        InputError: naming both.
    """
    for group in model.equal:
        first, *others = [name for name in group if name in tensors.tensors] or [""]
        digest = _digest(tensors.read(first)) if others else b""
        for name in others:
            if _digest(tensors.read(name)) != digest:
                raise InputError(
                    f"{tensors.path}: {first!r} and {name!r} are one matrix by the "
                    f"config, but hold other numbers; use the files that belong "
                    f"together"
                )


class CheckedWeights(Mapping[str, np.ndarray]):
    """The weights of a foreign model by path, each read when it is asked for.

    Raises:
        InputError: where one holds a number that is not finite.
    """

    def __init__(self, model: ForeignModel, tensors: TensorFile) -> None:
        self._weights, self._tensors = model.weights, tensors

    def __getitem__(self, path: str) -> np.ndarray:
        weight = self._weights[path]
        values = weight.read(self._tensors)
        if not np.isfinite(values).all():
            raise InputError(
                f"{self._tensors.path}: {_named(weight)} holds numbers that are not "
                f"finite; get the file again"
            )
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def _shape(path: str, weight: Weight, tensors: TensorFile) -> Shape:
    try:
        return weight.shape(tensors.tensors)
    except (IndexError, ValueError):
        shapes = ", ".join(str(tuple(tensors.tensors[n].shape)) for n in weight.names)
        raise InputError(
            f"{tensors.path}: {_named(weight)} of shape {shapes} cannot become the "
            f"weight {path!r}; use the files that belong together"
        ) from None


def _other_config(
    tensors: TensorFile, held: int, config: TransformerConfig
) -> InputError:
    return InputError(
        f"{tensors.path} holds {held} weights, but its config declares "
        f"{config.num_weights}; use the files that belong together"
    )


def _named(weight: Weight) -> str:
    return f"the tensor {' and '.join(map(repr, weight.names))}"


def _digest(values: np.ndarray) -> bytes:
    return hashlib.sha256(np.ascontiguousarray(values).data).digest()
