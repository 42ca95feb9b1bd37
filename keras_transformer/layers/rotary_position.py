"""Rotary positional encoding: queries and keys are turned by their positions.

B batch, H heads, T positions, K head_dim.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from keras_transformer.layers.relative_position import RelativePositionalEncoding
from keras_transformer.tensors import Tensor

LAYOUTS = ("interleaved", "halves")


@keras.saving.register_keras_serializable(package="keras_transformer")
class RotaryPositionalEncoding(RelativePositionalEncoding):
    """Each pair of a head's components is turned by position * base^(-2i / K).

    The product of a query and a key (B, H, T, K) then depends on their distance alone.
    Angles are float32 under every dtype policy.

    Args:
        layout: `"interleaved"`: components 2i and 2i + 1 are a pair (the paper);
            `"halves"`: components i and i + K/2 (GPT-NeoX, Llama).
        base: of the angular frequencies.

    Example:

    >>> import keras
    >>> from keras_transformer import layers
    >>> rotary = layers.RotaryPositionalEncoding()
    >>> attention = layers.MultiHeadAttention(2, 8, positional_encoding=rotary)
    >>> tuple(attention(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Su et al., 2021, https://arxiv.org/abs/2104.09864, section 3.2.
    """

    depends_on_distance_alone = True

    def __init__(
        self, layout: str = "interleaved", base: float = 10_000.0, **kwargs: Any
    ) -> None:
        if layout not in LAYOUTS:
            raise ValueError(
                f"layout must be one of {', '.join(LAYOUTS)}, got {layout!r}"
            )
        super().__init__(**kwargs)
        self.layout = layout
        self.base = base

    def rotate(self, states: Tensor, positions: Tensor) -> Tensor:
        head_dim = states.shape[-1]
        if head_dim % 2:
            raise ValueError(
                f"{self.name}: components are turned in pairs, but a head has "
                f"{head_dim}; use an even head_dim"
            )
        exponents = -2.0 * ops.arange(head_dim // 2, dtype="float32") / head_dim
        frequencies = ops.power(ops.cast(self.base, "float32"), exponents)  # (K / 2,)
        angles = ops.expand_dims(ops.cast(positions, "float32"), 1) * frequencies
        cosine, sine = ops.cos(angles), ops.sin(angles)  # (T, K / 2)
        real, imaginary = self._pairs(ops.cast(states, "float32"))
        turned = [
            real * cosine - imaginary * sine,
            imaginary * cosine + real * sine,
        ]
        return ops.cast(self._joined(turned, ops.shape(states)), states.dtype)

    def _pairs(self, states: Tensor) -> tuple[Tensor, Tensor]:
        """(..., K) as first and second components (..., K / 2)."""
        if self.layout == "halves":
            return ops.split(states, 2, axis=-1)
        pairs = (*ops.shape(states)[:-1], states.shape[-1] // 2, 2)
        states = ops.reshape(states, pairs)
        return states[..., 0], states[..., 1]

    def _joined(self, components: Sequence[Tensor], shape: Any) -> Tensor:
        if self.layout == "halves":
            return ops.concatenate(components, axis=-1)
        return ops.reshape(ops.stack(components, axis=-1), shape)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "layout": self.layout, "base": self.base}
