"""Base of the positional encodings that work inside self-attention.

B batch, H heads, T query positions, S key positions, K head_dim, W beam width.
"""

from __future__ import annotations

import keras

from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


class RelativePositionalEncoding(keras.layers.Layer):
    """Base class of encodings that tell self-attention how far apart positions are.

    A subclass overrides `rotate`, of queries and keys (B, H, T, K), `bias`, of scores
    (B, H, T, S), or both. `MultiHeadAttention` calls them for whole sequences and for
    one position with a KV cache alike, with the true positions of queries and keys, so
    that cached decoding equals teacher forcing without further code.

    Example:

    >>> from keras import ops
    >>> from keras_transformer import layers
    >>> class Nearness(layers.RelativePositionalEncoding):
    ...     def bias(self, query_positions, key_positions):
    ...         distance = ops.expand_dims(query_positions, 1) - key_positions
    ...         return -ops.cast(ops.abs(distance), "float32")[None]  # (1, T, S)
    >>> attention = layers.MultiHeadAttention(2, 8, positional_encoding=Nearness())
    >>> tuple(attention(ops.ones((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Shaw et al., 2018, https://arxiv.org/abs/1803.02155.
    """

    #: Whether `bias` depends on the distances of queries and keys alone. Restricted
    #: self-attention then computes it once for all its blocks; otherwise it has a mask.
    depends_on_distance_alone = False

    @property
    def only_rotates(self) -> bool:
        """Whether nothing is added to the scores: `bias` is that of this class."""
        return type(self).bias is RelativePositionalEncoding.bias

    def rotate(self, states: Tensor, positions: Tensor) -> Tensor:
        """Queries or keys (B, H, T, K) at int32 positions (T,), in the same shape.

        With a cache the axes before T are more, and positions may be (1,), where all
        stand at the same. Keys are cached as this gives them.
        """
        return states

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor | None:
        """What is added to the attention scores, float32 (H, T, S); None for nothing.

        H may be 1, the same for all heads.

        Args:
            query_positions: (T,) int32; with a cache (1,), that of all queries.
            key_positions: (S,) int32.
        """
        return None

    def build(self, inputs_shape: Shape | None = None) -> None:
        """Makes the weights, if there are any; they do not depend on the inputs."""
