"""Labels of a loss or metric: their padding and their shape.

B batch, T target positions, V vocabulary.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


class PaddingOfModel:
    """The `pad_id` of a loss or metric: as given, or of the model that compiles it.

    A metric takes that of the loss which is compiled with it.

    Without either it is 0.
    """

    name: str

    def set_pad_id(self, pad_id: int | None) -> None:
        """Sets the given id; None leaves it to the model."""
        self.pad_id = 0 if pad_id is None else pad_id
        self._given = pad_id is not None
        self._taken = False

    def take_pad_id(self, pad_id: int) -> None:
        """Takes the `pad_id` of a model, or of its loss, where none was given.

        Raises:
            InputError: where it was taken from another model.
        """
        if self._taken and pad_id != self.pad_id:
            raise InputError(
                f"{self.name} belongs to a model with pad_id {self.pad_id}, but this "
                f"model has {pad_id}; create another {type(self).__name__} for it"
            )
        if not self._given:
            self.pad_id, self._taken = pad_id, True

    @property
    def known_pad_id(self) -> int | None:
        """The value for `get_config`: None where neither user nor model set it."""
        return self.pad_id if self._given or self._taken else None


def token_mask(labels: Tensor, pad_id: int) -> Tensor:
    """1 at each label that is a token, 0 at padding: (...) -> (...) float32."""
    tokens = ops.not_equal(ops.cast(labels, "int32"), pad_id)
    return ops.cast(tokens, "float32")


def check_labels(labels: Tensor, expected: Iterable[int | None]) -> None:
    """Refuses labels whose shape (B, T) is not that of the outputs.

    Raises:
        ValueError: with both shapes.
    """
    shape, expected = tuple(labels.shape), tuple(expected)
    if len(shape) != len(expected) or shapes_differ(shape, expected):
        raise ValueError(
            f"the labels have the shape {shape}, but the model's output needs labels "
            f"of the shape {expected}; give one label for each position of the target"
        )


def check_weights(sample_weight: Tensor, labels: Tensor) -> bool:
    """Refuses weights that are neither of labels (B, T) nor of sentences, (B, 1).

    Returns:
        Whether there is one for each sentence.

    Raises:
        ValueError: with both shapes.
    """
    shape, wanted = tuple(sample_weight.shape), tuple(labels.shape)
    a_sentence = len(shape) == 2 and shape[1] == 1 != wanted[1]
    rows = wanted[:1] if a_sentence else wanted
    if len(shape) != 2 or shapes_differ(shape[: len(rows)], rows):
        raise ValueError(
            f"sample_weight has the shape {shape} and the labels {wanted}; give a "
            f"weight for each label, or one for each sentence in the shape "
            f"{(*wanted[:1], 1)}"
        )
    return a_sentence


def shapes_differ(shape: Shape, expected: Shape) -> bool:
    """Whether sizes differ that are both known."""
    pairs = zip(shape, expected, strict=True)
    return any(None not in pair and pair[0] != pair[1] for pair in pairs)


def rows_of_labels(labels: Tensor, vocabulary_size: int) -> Tensor:
    """The row of each label: itself, or 0 for what is outside of the vocabulary.

    An index outside of it would be an error or another row, depending on the backend.
    """
    return ops.where(_is_known(labels, vocabulary_size), labels, 0)


def nan_of_unknown(labels: Tensor, pad_id: int | None, vocabulary_size: int) -> Tensor:
    """NaN at each label that is neither in the vocabulary nor padding, else 0.

    Added to the score of a token, it is seen in the loss on every backend.
    """
    known = _is_known(labels, vocabulary_size)
    if pad_id is not None and not 0 <= pad_id < vocabulary_size:
        known = ops.logical_or(known, ops.equal(labels, pad_id))
    return ops.where(known, 0.0, math.nan)


def _is_known(labels: Tensor, vocabulary_size: int) -> Tensor:
    return ops.logical_and(labels >= 0, labels < vocabulary_size)
