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


@keras.saving.register_keras_serializable(package="keras_transformer")
class Scaled(keras.initializers.Initializer):
    """The values (D, F) of another initializer times a factor.

    Args:
        initializer: of Keras, or its name.
        gain: the factor.

    Reference: Glorot and Bengio, 2010, https://proceedings.mlr.press/v9/glorot10a.html;
    the gain of DeepNorm: Wang et al., 2022, https://arxiv.org/abs/2203.00555.
    """

    def __init__(self, initializer, gain):
        self.initializer = keras.initializers.get(initializer)
        self.gain = gain

    def __call__(self, shape, dtype=None):
        return self.gain * self.initializer(shape, dtype)

    def clone(self):
        return Scaled(self.initializer.clone(), self.gain)

    def get_config(self):
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "gain": self.gain,
        }


def scaled(initializer, gain):
    """An initializer whose values are multiplied by `gain`; itself for 1."""
    initializer = keras.initializers.get(initializer)
    return initializer if gain == 1.0 else Scaled(initializer, gain)


def initializer(own):
    """What a layer gives to `add_weight`: its own initializer, or zeros."""
    return keras.initializers.Zeros() if _left_out.get() else own
