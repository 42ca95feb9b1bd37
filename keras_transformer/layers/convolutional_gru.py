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
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import serialized
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class ConvolutionalGatedRecurrentUnit(keras.layers.Layer):
    """The next state u ⊙ s + (1 - u) ⊙ tanh(U * (r ⊙ s) + W * p + b) of a tape s.

    The gates are u = σ(U' * s + W' * p + b') and r = σ(U'' * s + W'' * p + b''), where
    * is a convolution over both axes of the tape and sees zeros beyond its edges. p is
    an output tape, which a plain Neural GPU leaves out. σ is max(0, min(1, 1.2
    sigmoid(x) - 0.1)), a sigmoid with a cut-off: a gate can be exactly open or closed,
    so that a cell keeps what it holds for any number of steps.

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
        width, size = inputs_shape[-2:]
        # A tape of one column has no neighbours to its sides.
        self.columns = 1 if width == 1 else self.kernel_size
        self.gates_kernel = self._kernel("gates", size, 2 * size)
        self.gates_bias = self._bias("gates", 2 * size, self.bias_initializer)
        self.candidate_kernel = self._kernel("candidate", size, size)
        self.candidate_bias = self._bias("candidate", size, "zeros")
        self.tape_kernel = None
        if tape_shape is not None:
            self.tape_kernel = self._kernel("tape", tape_shape[-1], 3 * size)

    def _kernel(self, name: str, size: int, filters: int) -> Any:
        return self.add_weight(
            name=f"{name}_kernel",
            shape=(self.kernel_size, self.columns, size, filters),
            initializer=initializer(fresh(self.kernel_initializer)),
        )

    def _bias(self, name: str, filters: int, own: Any) -> Any:
        return self.add_weight(
            name=f"{name}_bias", shape=(filters,), initializer=initializer(fresh(own))
        )

    def call(
        self, inputs: Tensor, tape: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        if mask is not None:
            masks.check_mask(mask, f"{self.name}: mask")
            cells = ops.expand_dims(ops.cast(mask, "bool"), (2, 3))  # (B, T, 1, 1)
            inputs = ops.where(cells, inputs, 0)
        gates, read = self._convolved(inputs, self.gates_kernel), 0.0
        if tape is not None:
            size = inputs.shape[-1]
            read_by_gates, read = ops.split(
                self._convolved(tape, self.tape_kernel), [2 * size], axis=-1
            )
            gates = gates + read_by_gates
        gates = sigmoid_with_cutoff(gates + self.gates_bias)
        update, reset = ops.split(gates, 2, axis=-1)
        candidate = self._convolved(reset * inputs, self.candidate_kernel)
        candidate = ops.tanh(candidate + read + self.candidate_bias)
        return update * inputs + (1.0 - update) * candidate

    def _convolved(self, inputs: Tensor, kernel: Tensor) -> Tensor:
        """(B, T, W, D) -> (B, T, W, F), as a product of neighbourhoods and a matrix.

        XLA's own convolution takes several times as long on a processor.
        """
        length, width = ops.shape(inputs)[1:3]
        rows, columns, _, filters = kernel.shape
        around = ((0, 0), (rows // 2,) * 2, (columns // 2,) * 2, (0, 0))
        padded = ops.pad(inputs, around)
        neighbours = [
            padded[:, row : row + length, column : column + width]
            for row in range(rows)
            for column in range(columns)
        ]
        matrix = ops.reshape(kernel, (-1, filters))
        return ops.matmul(ops.concatenate(neighbours, axis=-1), matrix)

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
