"""Attention for word alignment: the decoder layer that follows words best.

B batch, T target positions, S source positions, H heads, N layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras import ops

from keras_transformer.errors import InputError
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


def word_attention(weights: Tensors) -> Tensor:
    """The cross-attention that follows words, from N layers' (B, H, T, S): (B, T, S).

    The mean of the heads of the last layer but one, in float32.

    Reference: Garg et al., 2019, https://arxiv.org/abs/1909.02074, section 3.
    """
    return ops.mean(ops.cast(weights[word_layer(len(weights))], "float32"), axis=1)


def word_layer(count: int) -> int:
    """The index of the last layer but one of `count` layers, or of the only one."""
    return max(count - 2, 0)


def attends(model: Any) -> bool:
    """Whether a model, or each member of an ensemble, attends to the source."""
    return all(member.config.attends for member in _members(model))


def require_attention(model: Any, what: str) -> None:
    """Refuses uses of attention where the model has none.

    Args:
        model: a model of this package, or an ensemble.
        what: the beginning of the message, such as "alignments need".

    Raises:
        InputError: naming the kind of the model.
    """
    for member in _members(model):
        if not member.config.attends:
            raise InputError(
                f"{what} attention to the source, but this {member.config.kind} "
                'model has none (attention_scoring "none"); turn this off, or use '
                "another model"
            )


def _members(model: Any) -> Sequence[Any]:
    return getattr(model, "models", [model])
