"""The position-wise feed-forward network.

B batch, T positions, D hidden_dim, F intermediate_dim.
"""

import keras
from keras import ops

from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.initial_values import initializer


@keras.saving.register_keras_serializable(package="keras_transformer")
class FeedForward(keras.layers.Layer):
    """activation(x W_1 + b_1) W_2 + b_2, the same at every position.

    Args:
        intermediate_dim: F (d_ff), the inner width.
        activation: default `"relu"`, the paper's.
        dropout: on the inner activations; the paper has none.

    Call arguments:
        inputs: (B, T, D).

    Returns:
        (B, T, D) in the compute dtype.

    Masking: none; each position is computed by itself.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import FeedForward
    >>> tuple(FeedForward(32)(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.3.
    """

    def __init__(self, intermediate_dim, activation="relu", dropout=0.0, **kwargs):
        super().__init__(**kwargs)
        self.intermediate_dim = intermediate_dim
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.inner_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="inner_dropout"
        )

    def build(self, inputs_shape):
        hidden_dim = inputs_shape[-1]
        inner = (hidden_dim, self.intermediate_dim)
        self.inner_kernel = self.add_weight(
            name="inner_kernel",
            shape=inner,
            initializer=initializer("glorot_uniform"),
        )
        self.inner_bias = self.add_weight(
            name="inner_bias", shape=inner[1:], initializer="zeros"
        )
        self.outer_kernel = self.add_weight(
            name="outer_kernel",
            shape=inner[::-1],
            initializer=initializer("glorot_uniform"),
        )
        self.outer_bias = self.add_weight(
            name="outer_bias", shape=inner[:1], initializer="zeros"
        )

    def call(self, inputs, training=None):
        inner = ops.matmul(inputs, self.inner_kernel) + self.inner_bias  # (B, T, F)
        inner = self.activation(inner)
        if self.dropout and training:
            inner = self.inner_dropout(inner, training=True)
        return ops.matmul(inner, self.outer_kernel) + self.outer_bias

    def compute_output_shape(self, inputs_shape):
        return inputs_shape

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
        }
