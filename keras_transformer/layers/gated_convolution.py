"""Gated convolution, over whole sequences or one step at a time.

B batch, T positions, D hidden_dim, R positions that are kept, W beam width.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers import masks
from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import serialized
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


@keras.saving.register_keras_serializable(package="keras_transformer")
class GatedConvolution(keras.layers.Layer):
    """(X * A + a) ⊙ σ(X * C + c), causal or looking to both sides.

    The convolution sees `kernel_size` positions, `dilation` apart: those before and
    up to its own if it is causal, else as many on both sides. Before the first and
    after the last position it sees zeros.

    Args:
        kernel_size: how many positions it sees; odd unless causal.
        dilation: how far they are apart.
        causal: whether it sees no later position.
        kernel_initializer: of A and C.
        bias_initializer: of a and c.

    Call arguments:
        inputs: (B, T, D); with a cache, (B, W, D): the next position of each of W
            hypotheses.
        padding_mask: boolean or 1 and 0, (B, 1, 1, T), see `masks.padding_mask`: False
            is seen as zeros. Default: the Keras mask of the inputs.
        cache: the R = (kernel_size - 1) * dilation positions before, (B, W, R, D), or
            for W = 1 without that axis; of a causal one.
        mask: (B, T) bool, False is seen as zeros; where no `padding_mask` is given.

    Returns:
        (B, T, D) in the compute dtype; with a cache, that and the new cache.

    Raises:
        ValueError: the mask has another dtype or shape.

    Masking: what `padding_mask` says, or a Keras mask; that is passed on.

    Example:

    >>> import keras
    >>> from keras_transformer.layers import GatedConvolution
    >>> convolution = GatedConvolution(kernel_size=3, dilation=2, causal=True)
    >>> tuple(convolution(keras.random.normal((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: Dauphin et al., 2017, https://arxiv.org/abs/1612.08083; Gehring et al.,
    2017, https://arxiv.org/abs/1705.03122, section 3.2; dilated: Kalchbrenner et al.,
    2016, https://arxiv.org/abs/1610.10099.
    """

    def __init__(
        self,
        kernel_size: int,
        dilation: int = 1,
        causal: bool = False,
        kernel_initializer: Any = "glorot_uniform",
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        if not causal and kernel_size % 2 == 0:
            raise ValueError(
                f"kernel_size {kernel_size} is even, but a convolution that is not "
                f"causal sees as many positions on both sides; use an odd one"
            )
        super().__init__(**kwargs)
        self.supports_masking = True
        self.kernel_size = kernel_size
        self.dilation = dilation
        self.causal = causal
        self.kernel_initializer = given(kernel_initializer)
        self.bias_initializer = given(bias_initializer)

    @property
    def num_kept(self) -> int:
        """R, the number of other positions that each output depends on."""
        return (self.kernel_size - 1) * self.dilation

    def build(self, inputs_shape: Shape) -> None:
        # Without padding of its own: whole sequences and steps differ in it alone.
        self.convolution = keras.layers.Conv1D(
            2 * inputs_shape[-1],
            self.kernel_size,
            dilation_rate=self.dilation,
            padding="valid",
            kernel_initializer=fresh(self.kernel_initializer),
            bias_initializer=fresh(self.bias_initializer),
            dtype=self.dtype_policy,
            name="convolution",
        )
        self.convolution.build((inputs_shape[0], None, inputs_shape[-1]))

    def call(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        cache: Tensors | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        if cache is not None:
            if not self.causal:
                raise ValueError(
                    f"{self.name} is not causal: each output depends on later "
                    f"positions, so it takes no cache; give it the whole sequence"
                )
            return self._step(inputs, cache)
        if padding_mask is None and mask is not None:
            padding_mask = ops.expand_dims(mask, (1, 2))
        if padding_mask is not None:
            tokens = self._tokens(padding_mask)
            inputs = ops.where(ops.expand_dims(tokens, 2), inputs, 0)
        before = self.num_kept if self.causal else self.num_kept // 2
        padding = ((0, 0), (before, self.num_kept - before), (0, 0))
        return self._gated(ops.pad(inputs, padding))

    def compute_output_spec(
        self,
        inputs: Tensor,
        padding_mask: Tensor | None = None,
        cache: Tensors | None = None,
        mask: Tensor | None = None,
    ) -> Any:
        if cache is not None:
            return keras.Operation.compute_output_spec(self, inputs, cache=cache)
        if padding_mask is not None:
            self._tokens(padding_mask)
        return keras.KerasTensor(inputs.shape, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return inputs_shape

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "kernel_size": self.kernel_size,
            "dilation": self.dilation,
            "causal": self.causal,
            "kernel_initializer": serialized(self.kernel_initializer),
            "bias_initializer": serialized(self.bias_initializer),
        }

    def _tokens(self, padding_mask: Tensor) -> Tensor:
        """(B, 1, 1, T) -> (B, T)."""
        name = f"{self.name}: padding_mask"
        masks.check_mask(padding_mask, name)
        if len(padding_mask.shape) != 4 or tuple(padding_mask.shape[1:3]) != (1, 1):
            raise ValueError(
                f"{name} has the shape {tuple(padding_mask.shape)}, but must be "
                f"(batch, 1, 1, positions); masks.padding_mask makes it of ids"
            )
        return ops.cast(padding_mask[:, 0, 0], "bool")

    def _step(self, inputs: Tensor, cache: Tensors) -> tuple[Tensor, Tensor]:
        new = inputs if len(cache.shape) == 3 else ops.expand_dims(inputs, 2)
        seen = ops.concatenate([cache, new], axis=-2)  # (..., R + 1, D)
        rows, width, hidden_dim = ops.shape(inputs)
        flat = ops.reshape(seen, (rows * width, self.num_kept + 1, hidden_dim))
        outputs = ops.reshape(self._gated(flat), (rows, width, hidden_dim))
        return outputs, seen[..., 1:, :]

    def _gated(self, inputs: Tensor) -> Tensor:
        """(B, T + R, D) -> (B, T, D)."""
        values, gates = ops.split(self.convolution(inputs), 2, axis=-1)
        return values * ops.sigmoid(gates)
