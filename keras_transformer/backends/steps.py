"""Pieces of a training step that the three backends share."""

import contextlib
import contextvars
from typing import Any
from typing import NamedTuple


class Rows(NamedTuple):
    """The rows of a batch that a part of a step has: numbers, or tensors.

    Attributes:
        count: how many rows the part has.
        first: the number of its first row in the whole batch.
        step: how far apart its rows are there.
    """

    count: Any
    first: Any = 0
    step: int = 1

    def numbers(self, places, size):
        """The places 0, 1, ... of a tensor's first axis, as places of the whole one.

        `size` is that of the axis: a multiple of `count`, where each row of the batch
        is there several times.
        """
        times = size // self.count
        return (self.first + places // times * self.step) * times + places % times


# What is drawn by row; None where the whole batch is here. The replicas of TensorFlow
# are threads, each with a value of its own.
_drawn_rows = contextvars.ContextVar("drawn_rows", default=None)


def drawn_rows():
    """The `Rows` of the part of a batch that is computed now, or None."""
    return _drawn_rows.get()


@contextlib.contextmanager
def drawing(rows):
    """Within it, random bytes are those of these `Rows` of the batch; None: of all."""
    token = _drawn_rows.set(rows)
    try:
        yield
    finally:
        _drawn_rows.reset(token)


@contextlib.contextmanager
def replaced(owner, name, function):
    """Within it, `owner.name` is `function`, for this object alone."""
    vars(owner)[name] = function  # without Keras' own __setattr__
    try:
        yield
    finally:
        # The replicas of TensorFlow are threads that take turns: another one may
        # have been here.
        vars(owner).pop(name, None)


@contextlib.contextmanager
def caught_gradients(optimizer):
    """Within it, `optimizer.apply` applies nothing: its gradients go to the list."""
    caught = []

    def catch(gradients, trainable_variables=None):
        caught.extend(gradients)

    with replaced(optimizer, "apply", catch):
        yield caught


def added(total, gradients):
    """The sums of two lists in which None stands for nothing."""
    if total is None:
        return gradients
    return [
        old if new is None else new if old is None else old + new
        for old, new in zip(total, gradients, strict=True)
    ]


def divided(gradients, count):
    """Each by `count`, None stays None."""
    if count == 1:
        return gradients
    return [None if gradient is None else gradient / count for gradient in gradients]
