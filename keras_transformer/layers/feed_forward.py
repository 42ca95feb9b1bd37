"""The position-wise feed-forward network, plain or gated.

B batch, T positions, D hidden_dim, F intermediate_dim.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras

from keras_transformer.layers.activations import activation as make_activation
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import scaled
from keras_transformer.layers.initial_values import serialized
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.kernels import float_policy
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(Kernels):
    """activation(x W_1 + b_1) W_2 + b_2, the same at every position.

    Gated, it is (activation(x W_g + b_g) * (x W_1 + b_1)) W_2 + b_2.

    Args:
        intermediate_dim: F (d_ff), the inner width.
        activation: a name of Keras, `"gelu_tanh"`, `"gelu_sigmoid"` or a function;
            default `"relu"`, the paper's.
        dropout: on the inner activations; the paper has none.
        gated: whether a second projection W_g goes through the activation and
            multiplies the first (a gated linear unit: GEGLU, SwiGLU).
        use_bias: b_1, b_2 and b_g.
        initial_gain: a factor of the initial values of the matrices, DeepNorm's β.
        kernel_initializer: of the matrices.
        bias_initializer: of b_1, b_2 and b_g.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        (B, T, D) in the compute dtype.

    Masking: none, each position is computed by itself; a Keras mask is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import FeedForward
    >>> tuple(FeedForward(32)(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.3;
    gated: Shazeer, 2020, https://arxiv.org/abs/2002.05202.
    """

    def __init__(
        self,
        intermediate_dim: int,
        activation: str | Callable[[Tensor], Tensor] = "relu",
        dropout: float = 0.0,
        gated: bool = False,
        use_bias: bool = True,
        initial_gain: float = 1.0,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.intermediate_dim = intermediate_dim
        self.activation = make_activation(activation)
        self.dropout = dropout
        self.gated = gated
        gate = ("gate_kernel",) if gated else ()
        self.kernel_names = ("inner_kernel", *gate, "outer_kernel")
        self.use_bias = use_bias
        self.initial_gain = initial_gain
        self.kernel_initializer = given(kernel_initializer)
        self.bias_initializer = given(bias_initializer)
        self.inner_dropout = Dropout(
            dropout, dtype=float_policy(self.dtype_policy), name="inner_dropout"
        )

    def build(self, inputs_shape: Shape) -> None:
        inner = (inputs_shape[-1], self.intermediate_dim)
        self._projection("inner", *inner)
        if self.gated:
            self._projection("gate", *inner)
        self._projection("outer", *inner[::-1])
        self.build_quantized()

    def _projection(self, name: str, rows: int, columns: int) -> None:
        kernel = self.add_weight(
            name=f"{name}_kernel",
            shape=(rows, columns),
            initializer=initializer(
                scaled(fresh(self.kernel_initializer), self.initial_gain)
            ),
        )
        setattr(self, f"{name}_kernel", kernel)
        bias = None
        if self.use_bias:
            bias = self.add_weight(
                name=f"{name}_bias",
                shape=(columns,),
                initializer=initializer(fresh(self.bias_initializer)),
            )
        setattr(self, f"{name}_bias", bias)

    def call(self, inputs: Tensor, training: bool | None = None) -> Tensor:
        inner = self._affine(inputs, "inner")  # (B, T, F)
        if self.gated:
            gate = self._affine(inputs, "gate")
            inner = self.activation(gate) * inner
        else:
            inner = self.activation(inner)
        if self.dropout and training:
            inner = self.inner_dropout(inner, training=True)
        return self._affine(inner, "outer")

    def _affine(self, inputs: Tensor, name: str) -> Tensor:
        outputs = self.multiply(inputs, f"{name}_kernel")
        bias = getattr(self, f"{name}_bias")
        return outputs if bias is None else outputs + bias

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "gated": self.gated,
            "use_bias": self.use_bias,
            "initial_gain": self.initial_gain,
            "kernel_initializer": serialized(self.kernel_initializer),
            "bias_initializer": serialized(self.bias_initializer),
        }
