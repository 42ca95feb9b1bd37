"""Foreign model: what a family finds in the files of another toolkit."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

from keras_transformer.config import TransformerConfig
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.reading import TensorInfo
from keras_transformer.tensors import Shape


def _as_it_is(values: np.ndarray) -> np.ndarray:
    return values


@dataclasses.dataclass(frozen=True)
class Weight:
    """A weight of this package, made of foreign tensors when it is asked for.

    Args:
        names: the tensors that it is made of; none for a constant.
        make: makes it of their float32 values; it must not look at them, only move
            and join them: shapes are checked with stand-ins.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.importing.foreign_model import Weight
    >>> from keras_transformer.importing.reading import TensorInfo
    >>> weight = Weight(("fc1.weight",), np.transpose)
    >>> weight.shape({"fc1.weight": TensorInfo((48, 32), "float32")})
    (32, 48)
    """

    names: tuple[str, ...]
    make: Callable[..., np.ndarray] = _as_it_is

    def read(self, tensors: TensorFile) -> np.ndarray:
        """The values, float32 and contiguous."""
        values = self.make(*map(tensors.read, self.names))
        return np.ascontiguousarray(values, dtype=np.float32)

    def shape(self, tensors: Mapping[str, TensorInfo]) -> Shape:
        """The shape of the values, without reading them.

        Raises:
            ValueError: where the tensors have shapes that do not go together.
        """
        zero = np.zeros((), np.float32)
        # Of any shape, these take no memory.
        stand_ins = [np.broadcast_to(zero, tensors[n].shape) for n in self.names]
        return tuple(self.make(*stand_ins).shape)


def held(names: Sequence[str], tensors: TensorFile) -> str:
    """The first of these names that the file has; else the first, which it lacks."""
    return next((name for name in names if name in tensors.tensors), names[0])


def kept(name: str) -> Weight:
    """A weight that is a foreign tensor as it is."""
    return Weight((name,))


def transposed(name: str) -> Weight:
    """A kernel (inputs, outputs) of a foreign matrix (outputs, inputs)."""
    return Weight((name,), np.transpose)


def flattened(name: str) -> Weight:
    """A vector of a foreign tensor such as (1, D)."""
    return Weight((name,), np.ravel)


@dataclasses.dataclass(frozen=True, kw_only=True)
class ForeignModel:
    """A model of another toolkit in the words of this package; no weight is read yet.

    Args:
        family: what people call such models, such as `"MarianMT"`.
        config: the architecture.
        weights: by the path that `models.weights.named_weights` gives; exactly those
            that a model of `config` has.
        source_tokenizer: of the source; its special ids are those of `config`.
        target_tokenizer: of the target.
        decoding: the search that the model expects.
        languages: the languages section of the model folder; None where the model
            knows one direction only.
        known_words: all that the model has learned, where the files say it.
        about: what an export of this package tells of its model.
        licence: as far as the files say it.
        left_out: sentences about what is in the files and is not taken over.
        ignorable: names of tensors that are not used and need not be, as `fnmatch`
            patterns.
        equal: groups of names of one tied matrix: as many as there are in the file
            must hold the same numbers.
    """

    family: str
    config: TransformerConfig
    weights: Mapping[str, Weight]
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    decoding: DecodingOptions
    languages: Languages | None = None
    known_words: KnownWords | None = None
    about: About = dataclasses.field(default_factory=About)
    licence: str | None = None
    left_out: tuple[str, ...] = ()
    ignorable: tuple[str, ...] = ()
    equal: tuple[tuple[str, ...], ...] = ()
