"""SSRU: the simpler simple recurrent unit, in place of a decoder's self-attention.

B batch, T positions, D hidden_dim, W beam width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import scaled
from keras_transformer.layers.initial_values import serialized
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.linear_recurrence import linear_recurrence
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class SSRU(Kernels):
    """relu(c_t) of states c_t = f_t ⊙ c_(t-1) + (1 - f_t) ⊙ x_t W from c_0 = 0.

    The forget gate f_t = σ(x_t W_f + b_f) looks at the inputs alone, so that all
    positions are computed at once in training. A step of a search costs the same at
    every position, and its state is D numbers, where attention keeps all keys and
    values. States are float32 under every dtype policy.

    As a part of a `DecoderBlock`, `parts={"self_attention": SSRU()}`, it takes the
    place of self-attention.

    Args:
        kernel_initializer: of W and W_f.
        bias_initializer: of b_f.
        initial_gain: a factor of the initial values of W, DeepNorm's β.

    Call arguments:
        inputs: (B, T, D); with a cache, (B, W, D): the next position of each of W
            hypotheses.
        cache: the states before it, (B, W, D) float32, or for W = 1 (B, D); see
            `empty_cache`.

    Returns:
        (B, T, D) in the compute dtype; with a cache, that and the new cache.

    Masking: none: no position sees a later one, so that padding at the end changes
    nothing before it; a Keras mask is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import SSRU
    >>> tuple(SSRU()(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Kim et al., 2019, [From Research to Production and Back: Ludicrously Fast
    Neural Machine Translation](https://aclanthology.org/D19-5632), section 3.1.
    """

    kernel_names = ("input_kernel", "forget_kernel")

    def __init__(
        self,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        initial_gain: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.autocast = False  # it would round the cache
        self.kernel_initializer = given(kernel_initializer)
        self.bias_initializer = given(bias_initializer)
        self.initial_gain = initial_gain

    def build(self, inputs_shape: Shape) -> None:
        size = inputs_shape[-1]
        self.input_kernel = self._kernel("input_kernel", size, self.initial_gain)
        self.forget_kernel = self._kernel("forget_kernel", size)
        self.forget_bias = self.add_weight(
            name="forget_bias",
            shape=(size,),
            initializer=initializer(fresh(self.bias_initializer)),
        )
        self.build_quantized()

    def _kernel(self, name: str, size: int, gain: float = 1.0) -> Any:
        return self.add_weight(
            name=name,
            shape=(size, size),
            initializer=initializer(scaled(fresh(self.kernel_initializer), gain)),
        )

    def matrix(self, name: str) -> Tensor:
        return ops.cast(super().matrix(name), self.compute_dtype)

    def call(self, inputs: Tensor, cache: Tensor | None = None) -> Any:
        inputs = ops.cast(inputs, self.compute_dtype)
        gates = self.multiply(inputs, "forget_kernel")
        gates = gates + ops.cast(self.forget_bias, self.compute_dtype)
        gates = ops.sigmoid(ops.cast(gates, "float32"))
        updates = ops.cast(self.multiply(inputs, "input_kernel"), "float32")
        updates = (1.0 - gates) * updates
        if cache is None:
            states = linear_recurrence(gates, updates)
        else:
            before = ops.cast(ops.reshape(cache, ops.shape(updates)), "float32")
            states = gates * before + updates
        outputs = ops.cast(ops.relu(states), self.compute_dtype)
        if cache is None:
            return outputs
        return outputs, ops.reshape(states, ops.shape(cache))

    def empty_cache(self, *rows: int | Tensor) -> Tensor:
        """The states before the first position: zeros (*rows, D), (B, W) or (B,)."""
        return ops.zeros((*rows, self.forget_bias.shape[0]), dtype="float32")

    def compute_output_spec(self, inputs: Tensor, cache: Tensor | None = None) -> Any:
        if cache is not None:
            return keras.Operation.compute_output_spec(self, inputs, cache=cache)
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_initializer": serialized(self.kernel_initializer),
            "bias_initializer": serialized(self.bias_initializer),
            "initial_gain": self.initial_gain,
        }
