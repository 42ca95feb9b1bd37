"""Parts of a training step that the three backends share."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any
from typing import NamedTuple

from keras_transformer.tensors import Tensor

#: `chunk_tokens` on a GPU, whose memory is slow beside its products: each chunk adds to
#: the gradient of the whole output matrix, which is as much as the logits of some
#: hundreds of tokens.
GPU_CHUNK_TOKENS = 2048

#: `product_multiple` on a GPU. For other sizes XLA copies a matrix into a larger one
#: before each product with it (on an H100, of 37 000 rows into 37 024).
GPU_PRODUCT_MULTIPLE = 64


class Rows(NamedTuple):
    """The rows of a batch in one part of a step: numbers, or tensors.

    Attributes:
        count: the number of rows of the part.
        first: the number of its first row in the whole batch.
        step: the distance of its rows in the whole batch.
    """

    count: Any
    first: Any = 0
    step: int = 1

    def numbers(self, places: Tensor, size: Any) -> Tensor:
        """Indices 0, 1, ... of a tensor's first axis, as indices of the whole batch.

        `size` is the size of the axis: a multiple of `count` where each row of the
        batch occurs several times.
        """
        times = size // self.count
        return (self.first + places // times * self.step) * times + places % times


# What is drawn by row; None where the whole batch is here. The replicas of TensorFlow
# are threads with separate values.
_drawn_rows: contextvars.ContextVar[Rows | None] = contextvars.ContextVar(
    "drawn_rows", default=None
)


def drawn_rows() -> Rows | None:
    """The `Rows` of the part of a batch that is computed now, or None."""
    return _drawn_rows.get()


@contextlib.contextmanager
def drawing(rows: Rows | None) -> Iterator[None]:
    """Context in which random bytes are those of these `Rows`; None: of all rows."""
    token = _drawn_rows.set(rows)
    try:
        yield
    finally:
        _drawn_rows.reset(token)


@contextlib.contextmanager
def replaced(owner: Any, name: str, function: Callable[..., Any]) -> Iterator[None]:
    """Context in which `owner.name` is `function`, for this object only."""
    vars(owner)[name] = function  # without Keras' own __setattr__
    try:
        yield
    finally:
        # The replicas of TensorFlow are threads that take turns: another one may have
        # run.
        vars(owner).pop(name, None)


@contextlib.contextmanager
def caught_gradients(optimizer: Any) -> Iterator[list[Tensor | None]]:
    """Context in which `optimizer.apply` only appends its gradients to the list."""
    caught: list[Tensor | None] = []

    def catch(
        gradients: Iterable[Tensor | None], trainable_variables: Any = None
    ) -> None:
        caught.extend(gradients)

    with replaced(optimizer, "apply", catch):
        yield caught


def added(
    total: list[Tensor | None] | None, gradients: list[Tensor | None]
) -> list[Tensor | None]:
    """The sums of two lists of tensors or None."""
    if total is None:
        return gradients
    return [
        old if new is None else new if old is None else old + new
        for old, new in zip(total, gradients, strict=True)
    ]


def divided(gradients: list[Tensor | None], count: int) -> list[Tensor | None]:
    """Each by `count`, None stays None."""
    if count == 1:
        return gradients
    return [None if gradient is None else gradient / count for gradient in gradients]
