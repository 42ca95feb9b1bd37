"""The residual connection: the one place that knows pre-norm from post-norm.

B batch, T positions, D hidden_dim.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.layers import nested
from keras_transformer.layers.dropout import Dropout
from keras_transformer.layers.normalization import normalization as make_normalization
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Residual(keras.layers.Layer):
    """Norm(α x + Dropout(Sublayer(x))), or α x + Dropout(Sublayer(Norm(x))); α is 1.

    A block calls it around each sublayer:

        update = sublayer(residual.enter(stream))
        stream = residual(stream, update)

    Args:
        normalize_first: False is the paper's post-norm, True is pre-norm.
        dropout: on the sublayer's output, before it is added.
        epsilon: of the normalization.
        normalization: `"layer"`, `"rms"` or a layer (B, T, D) -> (B, T, D) of your own.
        stream_scale: x is multiplied by it before the sum, DeepNorm's α.

    Call arguments:
        stream: x, (B, T, D).
        update: the sublayer's output, (B, T, D); without it, this is `enter`.

    Returns:
        (B, T, D). The normalization is computed in float32.

    Masking: none, each position is computed by itself; the Keras mask of the stream is
    passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import Residual
    >>> stream = keras.random.normal((3, 5, 16))
    >>> residual = Residual(normalize_first=True)
    >>> tuple(residual(stream, 2.0 * residual.enter(stream)).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.4;
    pre-norm: Xiong et al., 2020, https://arxiv.org/abs/2002.04745; DeepNorm: Wang et
    al., 2022, https://arxiv.org/abs/2203.00555.
    """

    def __init__(
        self,
        normalize_first: bool = False,
        dropout: float = 0.0,
        epsilon: float = 1e-6,
        normalization: Any = "layer",
        stream_scale: float = 1.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.normalize_first = normalize_first
        self.dropout = dropout
        self.epsilon = epsilon
        self.stream_scale = stream_scale
        given = nested.from_config(normalization)
        self.normalization = None
        if not isinstance(given, keras.layers.Layer):
            self.normalization = given
            given = make_normalization(
                given, epsilon, dtype=self.dtype_policy, name="norm"
            )
        self.norm = given
        self.update_dropout = Dropout(
            dropout, dtype=self.dtype_policy, name="update_dropout"
        )

    def build(self, stream_shape: Shape, update_shape: Shape | None = None) -> None:
        if not self.norm.built:
            self.norm.build(stream_shape)

    def enter(self, stream: Tensor) -> Tensor:
        """The input of the sublayer, normalized under pre-norm: (B, T, D)."""
        if not self.normalize_first:
            return stream
        # In a functional model the operation has the name of this layer.
        symbolic = isinstance(stream, keras.KerasTensor)
        return self(stream) if symbolic else self.norm(stream)

    def call(
        self,
        stream: Tensor,
        update: Tensor | None = None,
        training: bool | None = None,
    ) -> Tensor:
        if update is None:
            return self.enter(stream)
        if self.dropout and training:
            update = self.update_dropout(update, training=True)
        if self.stream_scale != 1.0:
            stream = stream * self.stream_scale
        stream = stream + update
        return stream if self.normalize_first else self.norm(stream)

    def compute_output_shape(
        self, stream_shape: Shape, update_shape: Shape | None = None
    ) -> Shape:
        return stream_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "normalize_first": self.normalize_first,
            "dropout": self.dropout,
            "epsilon": self.epsilon,
            "normalization": self.normalization or nested.to_config(self.norm),
            "stream_scale": self.stream_scale,
        }
