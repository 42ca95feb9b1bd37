"""Relative position buckets: a learned bias for each head and range of distances.

B batch, H heads, T query positions, S key positions.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.relative_position import RelativePositionalEncoding
from keras_transformer.position_tables import bucket_starts
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class RelativeBuckets(RelativePositionalEncoding):
    """A learned number for each head, added to the scores by the distance's bucket.

    Near distances have buckets of their own, far ones share them. The layers of a stack
    usually share one such layer, which adds (H, T, S) to scores (B, H, T, S).

    Args:
        num_heads: H.
        num_buckets: of both directions together.
        max_distance: from here on, distances share the last bucket.
        causal: whether no position attends to a later one: then all buckets are for
            earlier ones.

    Example:

    >>> import keras
    >>> from keras_transformer import layers
    >>> buckets = layers.RelativeBuckets(num_heads=2)
    >>> attention = layers.MultiHeadAttention(2, 8, positional_encoding=buckets)
    >>> tuple(attention(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Raffel et al., 2020, https://arxiv.org/abs/1910.10683, section 2.1.
    """

    depends_on_distance_alone = True

    def __init__(
        self,
        num_heads: int,
        num_buckets: int = 32,
        max_distance: int = 128,
        causal: bool = False,
        **kwargs: Any,
    ) -> None:
        directions = 1 if causal else 2
        if num_buckets < 2 * directions or num_buckets % (2 * directions):
            raise ValueError(
                f"num_buckets must be a multiple of {2 * directions}, got {num_buckets}"
            )
        if max_distance <= num_buckets // directions // 2:
            raise ValueError(
                f"max_distance {max_distance} is within the exact half of "
                f"{num_buckets} buckets; give a larger one"
            )
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.num_buckets = num_buckets
        self.max_distance = max_distance
        self.causal = causal

    def build(self, inputs_shape: Shape | None = None) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.num_buckets, self.num_heads),
            initializer=initializer(keras.initializers.RandomNormal(stddev=0.02)),
            autocast=False,  # scores are float32
        )

    def bias(self, query_positions: Tensor, key_positions: Tensor) -> Tensor:
        distance = ops.expand_dims(key_positions, 0) - ops.expand_dims(
            query_positions, 1
        )  # (T, S)
        bias = ops.take(self.embeddings, self.buckets(distance), axis=0)  # (T, S, H)
        return ops.cast(ops.transpose(bias, (2, 0, 1)), "float32")

    def buckets(self, distance: Tensor) -> Tensor:
        """The bucket of each distance, key position minus query position; int32."""
        size = self.num_buckets if self.causal else self.num_buckets // 2
        starts = bucket_starts(size, self.max_distance)[1:]
        backwards = ops.maximum(-distance, 0) if self.causal else ops.abs(distance)
        reached = ops.greater_equal(ops.expand_dims(backwards, -1), starts)
        bucket = ops.sum(ops.cast(reached, "int32"), axis=-1)
        if self.causal:
            return bucket
        return bucket + size * ops.cast(distance > 0, "int32")

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "num_buckets": self.num_buckets,
            "max_distance": self.max_distance,
            "causal": self.causal,
        }
