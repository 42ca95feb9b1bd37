"""One block of the encoder: self-attention, then the feed-forward network.

B batch, S positions, D hidden_dim, H heads.
"""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer.layers.call_arguments import by_name
from keras_transformer.layers.transformer_block import TransformerBlock
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class EncoderBlock(TransformerBlock):
    """Self-attention and feed-forward, each within a residual connection.

    Args: those of `TransformerBlock`.

    Call arguments:
        source: (B, S, D).
        attention_mask: boolean, True = may attend: (S, S), (B, S, S) or what broadcasts
            to (B, H, S, S) with four axes.
        attention_bias: float32 of such a shape, alone or beside a mask; see
            `masks.attention_bias`.
        return_attention_weights: also return them.
        source_mask: (B, S) bool, False at padding; default: the Keras mask of the
            source.
        use_causal_mask: whether no position attends to a later one.

    Returns:
        (B, S, D); with `return_attention_weights`, also (B, H, S, S) in float32.

    Masking: what `attention_mask` says, and Keras masks as in
    `keras.layers.MultiHeadAttention`; that of the source is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import EncoderBlock
    >>> block = EncoderBlock(intermediate_dim=32, num_heads=2)
    >>> tuple(block(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    def build(self, source_shape: Shape) -> None:
        self.build_attention("self_attention", source_shape)
        self.build_residual("self_attention_residual", source_shape)
        self.build_feed_forward(source_shape)

    def call(
        self,
        source: Tensor,
        attention_mask: Tensor | None = None,
        attention_bias: Tensor | None = None,
        return_attention_weights: bool = False,
        training: bool | None = None,
        source_mask: Tensor | None = None,
        use_causal_mask: bool = False,
    ) -> Any:
        update, _, weights = self.attend(
            self.self_attention,
            self.self_attention_residual.enter(source),
            attention_mask=attention_mask,
            attention_bias=attention_bias,
            cache=None,
            return_attention_weights=return_attention_weights,
            training=training,
            query_mask=source_mask,
            use_causal_mask=use_causal_mask,
        )
        hidden = self.self_attention_residual(source, update, training=training)
        hidden = self.apply_feed_forward(hidden, training)
        return (hidden, weights) if return_attention_weights else hidden

    def compute_output_spec(self, *arguments: Any, **options: Any) -> Any:
        kwargs = by_name(EncoderBlock.call, arguments, options)
        source = kwargs.pop("source")
        return_attention_weights = kwargs.pop("return_attention_weights", False)
        kwargs["query_mask"] = kwargs.pop("source_mask", None)
        hidden = keras.KerasTensor(source.shape, dtype=self.compute_dtype)
        _, weights = self.self_attention.compute_output_spec(
            source, return_attention_weights=True, **kwargs
        )
        return (hidden, weights) if return_attention_weights else hidden

    def compute_output_shape(self, source_shape: Shape) -> Shape:
        return source_shape
