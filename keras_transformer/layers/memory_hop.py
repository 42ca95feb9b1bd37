"""Memory hop: a question looks through sentences once and takes something with it.

B batch, S sentences, D hidden_dim.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class MemoryHop(keras.layers.Layer):
    """u + softmax(u mᵀ) c: a query u, keys m and values c of the sentences of a story.

    It has no weights: `SentenceEmbedding` makes keys and values. With adjacent tying,
    the values of one hop are the keys of the next, as in `models.MemoryNetwork`.

    Args:
        linear: leave out the softmax, so that the scores themselves are the weights. A
            training that begins so ("linear start") ends less often in a poor solution;
            a second layer without it goes on.

    Call arguments:
        query: (B, D).
        key: (B, S, D).
        value: (B, S, D).
        return_attention_weights: also return the weights of the sentences.
        key_mask: (B, S) bool, False where there is no sentence; default: the Keras mask
            of the key.

    Returns:
        (B, D) in the compute dtype, the query of the next hop; with
        `return_attention_weights`, also (B, S) in float32.

    Raises:
        ValueError: the shapes do not fit together, or the mask is no mask of the key.

    Masking: what `key_mask` says; none is passed on, for there is one vector a story.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import MemoryHop
    >>> query, story = keras.random.normal((3, 16)), keras.random.normal((3, 5, 16))
    >>> tuple(MemoryHop()(query, key=story, value=story).shape)
    (3, 16)

    Reference: Sukhbaatar et al., 2015, https://arxiv.org/abs/1503.08895, sections 2.1
    and 4.2 (linear start).
    """

    def __init__(self, linear: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.linear = linear

    def build(self, query_shape: Shape, key_shape: Shape, value_shape: Shape) -> None:
        shapes = [tuple(shape) for shape in (query_shape, key_shape, value_shape)]
        sizes = {shape[-1] for shape in shapes} - {None}
        if [len(shape) for shape in shapes] != [2, 3, 3] or len(sizes) > 1:
            raise ValueError(
                f"{self.name}: query, key and value have the shapes {shapes[0]}, "
                f"{shapes[1]} and {shapes[2]}, but must be (batch, size), (batch, "
                f"sentences, size) and again (batch, sentences, size)"
            )

    def call(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        return_attention_weights: bool = False,
        key_mask: Tensor | None = None,
    ) -> Any:
        bias = self._bias(key, key_mask)
        row = ops.expand_dims(query, 1)  # (B, 1, D)
        if self.linear:
            scores = ops.matmul(row, ops.swapaxes(key, 1, 2))
            weights = ops.cast(scores, "float32")  # (B, 1, S)
            if bias is not None:
                weights = ops.where(bias < 0, 0.0, weights)
            found = ops.matmul(ops.cast(weights, value.dtype), value)
        else:
            found, weights = scaled_dot_product_attention(
                row, key, value, bias, scale=1.0
            )
        output = query + found[:, 0]
        return (output, weights[:, 0]) if return_attention_weights else output

    def compute_output_spec(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        return_attention_weights: bool = False,
        key_mask: Tensor | None = None,
    ) -> Any:
        self._bias(key, key_mask)
        output = keras.KerasTensor(query.shape, self.compute_dtype)
        weights = keras.KerasTensor(key.shape[:2], "float32")
        return (output, weights) if return_attention_weights else output

    def compute_output_shape(
        self, query_shape: Shape, key_shape: Shape, value_shape: Shape
    ) -> Shape:
        return query_shape

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        return None

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "linear": self.linear}

    def _bias(self, key: Tensor, key_mask: Tensor | None) -> Tensor | None:
        """(B, 1, S), or None without a mask."""
        batch, sentences = key.shape[:2]
        bias = masks.with_keras_masks(None, (batch, 1, 1, sentences), key_mask=key_mask)
        return None if bias is None else bias[:, 0]
