"""Initializers, and skipping them where a model's weights are about to be loaded."""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Iterator
from typing import Any

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.tensors import DType
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor

_left_out = contextvars.ContextVar("left_out", default=False)


@contextlib.contextmanager
def left_out() -> Iterator[None]:
    """Context in which the layers of this package leave their weights uninitialized.

    For a model whose weights are then read from a file: random values for `big` take
    seconds, and on JAX a program is compiled for each shape. Memory that is not written
    yet is not allocated yet either.
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

    def __init__(self, initializer: Any, gain: float) -> None:
        self.initializer = keras.initializers.get(initializer)
        self.gain = gain

    def __call__(self, shape: Shape, dtype: DType | None = None) -> Tensor:
        return self.gain * self.initializer(shape, dtype)

    def clone(self) -> Scaled:
        return Scaled(self.initializer.clone(), self.gain)

    def get_config(self) -> dict[str, Any]:
        return {
            "initializer": keras.initializers.serialize(self.initializer),
            "gain": self.gain,
        }


@keras.saving.register_keras_serializable(package="keras_transformer")
class InFloat32(keras.initializers.Initializer):
    """The values (D, F) of another initializer, computed in float32.

    Args:
        initializer: of Keras, or its name.

    Reference: Saxe et al., 2014, https://arxiv.org/abs/1312.6120, whose orthogonal
    values need a decomposition that no backend has in half precision.
    """

    def __init__(self, initializer: Any) -> None:
        self.initializer = keras.initializers.get(initializer)

    def __call__(self, shape: Shape, dtype: DType | None = None) -> Tensor:
        return ops.cast(self.initializer(shape, "float32"), dtype or "float32")

    def clone(self) -> InFloat32:
        return InFloat32(self.initializer.clone())

    def get_config(self) -> dict[str, Any]:
        return {"initializer": keras.initializers.serialize(self.initializer)}


def given(initializer: Any) -> Any:
    """An initializer as a layer stores it: an object, a name or None.

    A name stays one, because Keras draws a seed for each object that it makes: weights
    that follow from `keras.utils.set_random_seed` would change.

    Raises:
        ValueError: there is no such initializer.
    """
    if initializer is None or isinstance(initializer, keras.initializers.Initializer):
        return initializer
    if isinstance(initializer, str):
        if not hasattr(keras.initializers, initializer):
            raise ValueError(
                f"there is no initializer {initializer!r}; give a name of Keras, such "
                f'as "glorot_uniform", or an object'
            )
        return initializer
    return keras.initializers.get(initializer)


def fresh(initializer: Any) -> Any:
    """An object for one weight of its own.

    One object for several weights would give equal values to equal shapes.
    """
    if isinstance(initializer, keras.initializers.Initializer):
        return initializer.clone()
    return keras.initializers.get(initializer)


def of_embeddings(initializer: Any, size: int) -> Any:
    """`fresh`, or the default of a matrix (V, D): normal, deviation 1 / √D."""
    if initializer is None:
        return keras.initializers.RandomNormal(stddev=size**-0.5)
    return fresh(initializer)


def serialized(initializer: Any) -> Any:
    """An initializer in the form of `get_config`, from which `given` restores it."""
    if isinstance(initializer, keras.initializers.Initializer):
        return keras.initializers.serialize(initializer)
    return initializer


def scaled(initializer: Any, gain: float) -> Any:
    """An initializer whose values are multiplied by `gain`; itself for 1."""
    initializer = keras.initializers.get(initializer)
    return initializer if gain == 1.0 else Scaled(initializer, gain)


def initializer(own: Any) -> Any:
    """The initializer for `add_weight`: the layer's, or inside `left_out` a no-op."""
    return _Unwritten() if _left_out.get() else own


class _Unwritten(keras.initializers.Initializer):
    """Uninitialized values, which are about to be replaced."""

    def __call__(self, shape: Shape, dtype: DType | None = None) -> Tensor:
        return backends.unwritten(tuple(shape), keras.backend.standardize_dtype(dtype))
