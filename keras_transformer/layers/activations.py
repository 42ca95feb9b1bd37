"""Activations of the feed-forward network, by the names that configs give."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu_tanh(inputs: Tensor) -> Tensor:
    """GELU with a tanh in place of the normal distribution, as GPT-2 and T5 v1.1.

    Reference: Hendrycks and Gimpel, 2016, https://arxiv.org/abs/1606.08415, section 2.
    """
    return keras.activations.gelu(inputs, approximate=True)


@keras.saving.register_keras_serializable(package="keras_transformer")
def gelu_sigmoid(inputs: Tensor) -> Tensor:
    """GELU with a sigmoid in place of the normal distribution: x σ(1.702 x).

    Reference: Hendrycks and Gimpel, 2016, https://arxiv.org/abs/1606.08415, section 2.
    """
    return inputs * ops.sigmoid(1.702 * inputs)


_BY_NAME = {"gelu_tanh": gelu_tanh, "gelu_sigmoid": gelu_sigmoid}


def activation(name: Any) -> Callable[[Tensor], Tensor]:
    """The function of a name of this package or of Keras, of a config or a function.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers.activations import activation
    >>> round(float(activation("gelu_sigmoid")(ops.array(1.0))), 4)
    0.8458
    """
    if isinstance(name, str) and name in _BY_NAME:
        return _BY_NAME[name]
    return keras.activations.get(name)
