"""Positional encodings: sinusoids or a learned table, added to the embeddings.

B batch, T positions, D hidden_dim, W beam width, L length of a cache.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import of_embeddings
from keras_transformer.layers.initial_values import serialized
from keras_transformer.position_tables import LAYOUTS
from keras_transformer.position_tables import frequencies
from keras_transformer.position_tables import sinusoidal_table
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class SinusoidalPositionalEncoding(keras.layers.Layer):
    """x + PE, PE(pos, 2i) = sin(pos / 10000^(2i/D)), PE(pos, 2i+1) = cos(the same).

    Works for any length; the table is float64 rounded to float32 under every dtype
    policy, and only the sum is in the compute dtype.

    Args:
        layout: `"interleaved"` (the paper), `"halves"` (all sines, then all
            cosines) or `"halves_t2t"` (the same with exponent i / (D/2 - 1)).
        offset: added to every position.

    Call arguments:
        inputs: (B, T, D), or of any other rank: positions are the last axis but one.
        position: scalar int32: all of (B, W, D) stand at this one position.
        length: int, an upper bound of `position` + 1, needed with it; of T, where T is
            known only when the program runs: then a table of so many rows is a
            constant of the program.

    Returns:
        The shape of the inputs in the compute dtype.

    Masking: none, each position is computed by itself; a Keras mask is passed on.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import SinusoidalPositionalEncoding
    >>> encoded = SinusoidalPositionalEncoding()(ops.zeros((1, 2, 4)))
    >>> ops.convert_to_numpy(encoded)[0, 0]
    array([0., 1., 0., 1.], dtype=float32)

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.5.
    """

    def __init__(
        self, layout: str = "interleaved", offset: int = 0, **kwargs: Any
    ) -> None:
        if layout not in LAYOUTS.values():
            raise ValueError(
                f"layout must be one of {', '.join(LAYOUTS.values())}, got {layout!r}"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.layout = layout
        self.offset = offset

    def build(self, inputs_shape: Shape) -> None:
        if inputs_shape[-1] % 2:
            raise ValueError(
                f"sinusoids come in pairs: the last axis must be even, "
                f"got the shape {inputs_shape}"
            )

    def call(
        self,
        inputs: Tensor,
        position: Tensor | None = None,
        length: int | Tensor | None = None,
    ) -> Tensor:
        known, hidden_dim = inputs.shape[-2:]
        if position is None and isinstance(known, int):
            encoding = sinusoidal_table(known, hidden_dim, self.layout, self.offset)
        elif length is not None:
            table = sinusoidal_table(length, hidden_dim, self.layout, self.offset)
            if position is None:
                position = ops.arange(0, ops.shape(inputs)[-2], dtype="int32")
            encoding = ops.take(ops.convert_to_tensor(table), position, axis=0)
        else:
            if position is not None:
                raise ValueError(
                    f"{self.name}: a position needs the length of the whole sequence, "
                    f"from which the table is made; give length as well"
                )
            encoding = self._dynamic_table(ops.shape(inputs)[-2], hidden_dim)
        encoding = ops.cast(encoding, "float32")
        outputs = ops.cast(inputs, "float32") + encoding
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "layout": self.layout,
            "offset": self.offset,
        }

    def _dynamic_table(self, length: int | Tensor, hidden_dim: int) -> Tensor:
        """The table in the graph, for a length known only when it runs."""
        positions = ops.arange(0, length, dtype="int32") + self.offset
        positions = ops.cast(ops.expand_dims(positions, 1), "float64")
        angles = positions * frequencies(hidden_dim, self.layout)
        axis = 2 if self.layout == "interleaved" else 1
        table = ops.stack([ops.sin(angles), ops.cos(angles)], axis=axis)
        return ops.reshape(table, (length, hidden_dim))


@keras.saving.register_keras_serializable(package="keras_transformer")
class LearnedPositionalEmbedding(keras.layers.Layer):
    """x + P[pos], with a learned table P of `max_sequence_length` rows.

    As with sinusoids, only the sum is in the compute dtype.

    Args:
        max_sequence_length: rows of the table.
        offset: added to every position.
        embeddings_initializer: of P; default: normal with the deviation 1 / √D.

    Call arguments:
        inputs: (B, T, D), or of any other rank: positions are the last axis but one.
            T is at most `max_sequence_length` - `offset`.
        position: scalar int32: all of (B, W, D) stand at this one position.
        length: int, an upper bound of `position` + 1; needed with it.

    Returns:
        The shape of the inputs in the compute dtype.

    Raises:
        ValueError: the inputs are longer than the table.

    Masking: none, each position is computed by itself; a Keras mask is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import LearnedPositionalEmbedding
    >>> positions = LearnedPositionalEmbedding(max_sequence_length=32)
    >>> tuple(positions(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Gehring et al., 2017, https://arxiv.org/abs/1705.03122; Table 3 row E
    of Vaswani et al., 2017, https://arxiv.org/abs/1706.03762.
    """

    def __init__(
        self,
        max_sequence_length: int,
        offset: int = 0,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.max_sequence_length = max_sequence_length
        self.offset = offset
        self.embeddings_initializer = given(embeddings_initializer)

    def build(self, inputs_shape: Shape) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.max_sequence_length, inputs_shape[-1]),
            initializer=initializer(
                of_embeddings(self.embeddings_initializer, inputs_shape[-1])
            ),
            autocast=False,
        )

    def call(
        self,
        inputs: Tensor,
        position: Tensor | None = None,
        length: int | Tensor | None = None,
    ) -> Tensor:
        if position is None:
            length = inputs.shape[-2]
        limit = self.max_sequence_length - self.offset
        if isinstance(length, int) and length > limit:
            raise ValueError(
                f"{self.name}: a sequence of {length} positions is longer than the "
                f"{limit} that max_sequence_length {self.max_sequence_length} and "
                f"offset {self.offset} allow; shorten it, or train with a larger "
                f"max_sequence_length"
            )
        if position is None:
            position = ops.arange(0, ops.shape(inputs)[-2], dtype="int32")
        row = position + self.offset
        if isinstance(length, int):
            rows = ops.take(self.embeddings, row, axis=0)
        else:
            # Beyond the table a gather gives what it likes: its last row, or an error.
            last = self.max_sequence_length - 1
            rows = ops.take(self.embeddings, ops.minimum(row, last), axis=0)
            is_held = ops.expand_dims(ops.less_equal(row, last), -1)
            rows = ops.where(is_held, rows, float("nan"))
        outputs = ops.cast(inputs, "float32") + ops.cast(rows, "float32")
        return ops.cast(outputs, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_sequence_length": self.max_sequence_length,
            "offset": self.offset,
            "embeddings_initializer": serialized(self.embeddings_initializer),
        }
