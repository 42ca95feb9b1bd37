"""Initializers, and skipping them where a model's weights are about to be loaded."""

import contextlib
import contextvars

import keras

_left_out = contextvars.ContextVar("left_out", default=False)


@contextlib.contextmanager
def left_out():
    """Within it, the weights of this package's layers begin as zeros.

    For a model whose weights are read from a file: random ones of `big` take seconds,
    and on JAX a program is compiled for each shape.
    """
    token = _left_out.set(True)
    try:
        yield
    finally:
        _left_out.reset(token)


def initializer(own):
    """What a layer gives to `add_weight`: its own initializer, or zeros."""
    return keras.initializers.Zeros() if _left_out.get() else own
