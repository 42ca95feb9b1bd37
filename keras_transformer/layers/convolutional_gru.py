"""Convolutional gated recurrent unit, the step of a Neural GPU.

B batch, T positions of the tape, W columns of the tape, D hidden_dim.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import serialized
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalGatedRecurrentUnit(keras.layers.Layer):
    """The next state u ⊙ s + (1 - u) ⊙ tanh(U * (r ⊙ s) + W * p + b) of a tape s.

    The gates are u = σ(U' * s + W' * p + b') and r = σ(U'' * s + W'' * p + b''), where
    * is a convolution over both axes of the tape, which sees zeros beyond its edges, and
    p an output tape, left out in a plain Neural GPU. σ is the sigmoid with a cut-off,
    max(0, min(1, 1.2 sigmoid(x) - 0.1)): a gate can be exactly open or closed, so that
    a cell keeps what it holds for any number of steps.

    Args:
        kernel_size: the cells that a convolution sees along each axis, odd.
        kernel_initializer: of all U and W.
        bias_initializer: of b' and b''; b starts at 0.

    Call arguments:
        inputs: the tape s, (B, T, W, D).
        tape: the output tape p, (B, T, W, D), at every call or at none.
        mask: (B, T) bool; False is seen as zeros. Default: the Keras mask of the
            inputs.

    Returns:
        The next state (B, T, W, D) in the compute dtype.

    Raises:
        ValueError: an even kernel size, or a mask of another dtype.

    Masking: what `mask` says; it is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import ConvolutionalGatedRecurrentUnit
    >>> state = keras.random.normal((2, 7, 4, 16))
    >>> tuple(ConvolutionalGatedRecurrentUnit(kernel_size=3)(state).shape)
    (2, 7, 4, 16)

    Reference: Kaiser and Sutskever, 2015, [Neural GPUs Learn Algorithms](
    https://arxiv.org/abs/1511.08228), section 2; with an output tape: Kaiser and
    Bengio, 2016, https://arxiv.org/abs/1610.08613, section 2.
    """

    def __init__(
        self,
        kernel_size: int = 3,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "ones",
        **kwargs: Any,
    ) -> None:
        if kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size {kernel_size} is even, but a cell of the tape sees as "
                f"many cells on both sides; use an odd one"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.kernel_size = kernel_size
        self.kernel_initializer = given(kernel_initializer)
        self.bias_initializer = given(bias_initializer)

    def build(self, inputs_shape: Shape, tape_shape: Shape | None = None) -> None:
        size = inputs_shape[-1]
        self.gates = self._convolution("gates", 2 * size, self.bias_initializer)
        self.candidate = self._convolution("candidate", size, "zeros")
        for convolution in (self.gates, self.candidate):
            convolution.build(inputs_shape)
        if tape_shape is not None:
            self.reading = self._convolution("reading", 3 * size, None)
            self.reading.build(tape_shape)

    def _convolution(self, name: str, filters: int, bias: Any) -> Any:
        return keras.layers.Conv2D(
            filters,
            self.kernel_size,
            padding="same",
            data_format="channels_last",
            use_bias=bias is not None,
            kernel_initializer=fresh(self.kernel_initializer),
            bias_initializer=fresh(bias),
            dtype=self.dtype_policy,
            name=name,
        )

    def call(
        self, inputs: Tensor, tape: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:
            masks.check_mask(mask, f"{self.name}: mask")
            cells = ops.expand_dims(ops.cast(mask, "bool"), (2, 3))  # (B, T, 1, 1)
            inputs = ops.where(cells, inputs, 0)
        gates, read = self.gates(inputs), 0.0
        if tape is not None:
            size = inputs.shape[-1]
            read_by_gates, read = ops.split(self.reading(tape), [2 * size], axis=-1)
            gates = gates + read_by_gates
        update, reset = ops.split(sigmoid_with_cutoff(gates), 2, axis=-1)
        candidate = ops.tanh(self.candidate(reset * inputs) + read)
        return update * inputs + (1.0 - update) * candidate

    def compute_output_spec(
        self, inputs: Tensor, tape: Tensor | None = None, mask: Tensor | None = None
    ) -> Any:
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def compute_output_shape(
        self, inputs_shape: Shape, tape_shape: Shape | None = None
    ) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "kernel_initializer": serialized(self.kernel_initializer),
            "bias_initializer": serialized(self.bias_initializer),
        }


def sigmoid_with_cutoff(inputs: Tensor) -> Tensor:
    """max(0, min(1, 1.2 sigmoid(x) - 0.1)): exactly 0 and 1 are within reach.

    Reference: Kaiser and Sutskever, 2015, https://arxiv.org/abs/1511.08228, section 4.
    """
    return ops.clip(1.2 * ops.sigmoid(inputs) - 0.1, 0.0, 1.0)
