"""Base of the encoder and decoder blocks: sublayers, residuals and normalizations.

B batch, T positions, D hidden_dim, F intermediate_dim, H heads, K head_dim.
"""

import keras

from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.residual import Residual


class TransformerBlock(keras.layers.Layer):
    """The arguments of a block, and its parts: attention, residual, feed-forward.

    Input and output are (B, T, D) in the compute dtype; see `EncoderBlock` and
    `DecoderBlock`, which arrange the parts.

    Args:
        intermediate_dim: F (d_ff).
        num_heads: H.
        head_dim: K; default D / H.
        value_dim: size of a head's values; default `head_dim`.
        activation: of the feed-forward network.
        dropout: on the outputs of the sublayers.
        attention_dropout: on the attention weights.
        activation_dropout: inside the feed-forward network.
        normalize_first: False is the paper's post-norm, True is pre-norm.
        layer_norm_epsilon: added to the variance.
        use_bias: biases in the attention projections.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1.
    """

    def __init__(
        self,
        intermediate_dim,
        num_heads,
        head_dim=None,
        value_dim=None,
        activation="relu",
        dropout=0.0,
        attention_dropout=0.0,
        activation_dropout=0.0,
        normalize_first=False,
        layer_norm_epsilon=1e-6,
        use_bias=False,
        **kwargs,
    ):
        super().__init__(**kwargs)
        self.intermediate_dim = intermediate_dim
        self.num_heads = num_heads
        self.head_dim = head_dim
        self.value_dim = value_dim
        self.activation = keras.activations.get(activation)
        self.dropout = dropout
        self.attention_dropout = attention_dropout
        self.activation_dropout = activation_dropout
        self.normalize_first = normalize_first
        self.layer_norm_epsilon = layer_norm_epsilon
        self.use_bias = use_bias

    def get_config(self):
        return {
            **super().get_config(),
            "intermediate_dim": self.intermediate_dim,
            "num_heads": self.num_heads,
            "head_dim": self.head_dim,
            "value_dim": self.value_dim,
            "activation": keras.activations.serialize(self.activation),
            "dropout": self.dropout,
            "attention_dropout": self.attention_dropout,
            "activation_dropout": self.activation_dropout,
            "normalize_first": self.normalize_first,
            "layer_norm_epsilon": self.layer_norm_epsilon,
            "use_bias": self.use_bias,
        }

    # === Parts ===

    def build_attention(self, name, query_shape, value_shape=None):
        head_dim = self.head_dim
        if head_dim is None:
            head_dim, rest = divmod(query_shape[-1], self.num_heads)
            if rest:
                raise ValueError(
                    f"num_heads {self.num_heads} does not divide the hidden_dim "
                    f"{query_shape[-1]} of the input; give head_dim"
                )
        attention = MultiHeadAttention(
            self.num_heads,
            head_dim,
            value_dim=self.value_dim,
            dropout=self.attention_dropout,
            use_bias=self.use_bias,
            dtype=self.dtype_policy,
            name=name,
        )
        attention.build(query_shape, value_shape)
        return attention

    def build_residual(self, name, shape):
        residual = Residual(
            self.normalize_first,
            self.dropout,
            self.layer_norm_epsilon,
            dtype=self.dtype_policy,
            name=name,
        )
        residual.build(shape)
        return residual

    def build_feed_forward(self, shape):
        self.feed_forward = FeedForward(
            self.intermediate_dim,
            self.activation,
            self.activation_dropout,
            dtype=self.dtype_policy,
            name="feed_forward",
        )
        self.feed_forward.build(shape)
        self.feed_forward_residual = self.build_residual("feed_forward_residual", shape)

    def apply_feed_forward(self, hidden, training):
        update = self.feed_forward(
            self.feed_forward_residual.enter(hidden), training=training
        )
        return self.feed_forward_residual(hidden, update, training=training)
