"""The masks of `layers.masks` as a layer: ids in, one bias for a whole stack out.

B batch, T positions.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.token_ids import whole_ids
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class AttentionBias(keras.layers.Layer):
    """The bias that self-attention adds to its scores, computed from ids (B, T).

    Computed once a step and shared by the layers of a stack.

    Args:
        pad_id: this id is not attended to; None: every position is.
        causal: no position attends to a later one.
        window: positions further apart do not attend to each other; at 0, each attends
            to itself alone; None: any may.

    Call arguments:
        ids: (B, T), int or whole numbers in float32.

    Returns:
        Float32 under every dtype policy: 0 where attention is allowed,
        `masks.BLOCKED` where not; (B, 1, 1, T), (1, 1, T, T) or (B, 1, T, T), as the
        masks in use need.

    Raises:
        ValueError: `window` is below 0; ids are not (B, T), are floats of half
            precision, or are not whole numbers.

    Masking: made here, of the ids; Keras masks are neither read nor produced.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import AttentionBias
    >>> bias = AttentionBias(pad_id=0)(ops.array([[5, 6, 0]]))
    >>> ops.convert_to_numpy(bias)[0, 0, 0] == 0
    array([ True,  True, False])

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.2.3.
    """

    def __init__(
        self,
        pad_id: int | None = None,
        causal: bool = False,
        window: int | None = None,
        **kwargs: Any,
    ) -> None:
        if window is not None and window < 0:
            raise ValueError(
                f"window must be at least 0, got {window}; leave it out for attention "
                f"to all positions"
            )
        super().__init__(**kwargs)
        self.pad_id = pad_id
        self.causal = causal
        self.window = window
        self.autocast = False  # it would round ids that come as floats

    def build(self, ids_shape: Shape | None = None) -> None:
        """There are no weights."""

    def call(self, ids: Tensor) -> Tensor:
        ids = whole_ids(ids, self.name)
        if len(ids.shape) != 2:
            raise ValueError(
                f"{self.name} got ids of the shape {tuple(ids.shape)}, but they are "
                f"(batch, positions); a single sentence is a batch of one"
            )
        length = ops.shape(ids)[1]
        mask = masks.combine(
            None if self.pad_id is None else masks.padding_mask(ids, self.pad_id),
            masks.causal_mask(length) if self.causal else None,
            None if self.window is None else masks.local_mask(length, self.window),
        )
        if mask is None:
            mask = ops.ones((1, 1, 1, length), dtype="bool")
        if len(mask.shape) == 2:
            mask = ops.expand_dims(mask, (0, 1))
        return masks.attention_bias(mask)

    def compute_output_spec(self, ids: Tensor) -> Any:
        whole_ids(ids, self.name)
        return keras.KerasTensor(self.compute_output_shape(ids.shape), "float32")

    def compute_output_shape(self, ids_shape: Shape) -> Shape:
        batch, length = ids_shape
        square = self.causal or self.window is not None
        return (
            1 if self.pad_id is None else batch,
            1,
            length if square else 1,
            length,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "pad_id": self.pad_id,
            "causal": self.causal,
            "window": self.window,
        }
