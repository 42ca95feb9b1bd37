"""Dropout with eight random bits an element, the same on every backend."""

from __future__ import annotations

from typing import Any

import keras

from keras_transformer import backends
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class Dropout(keras.layers.Dropout):
    """Sets a share `rate` of the elements to 0 and scales the others to make up for it.

    Drawing random bits is 13 to 30 % of a training step of a small model on a CPU, so
    each element gets one byte and is kept where that is not below 256 * rate. The
    share is therefore a whole number of 256ths, the nearest one that is neither 0 nor
    1 (0.1 becomes 26 / 256), and the others are scaled by exactly its inverse.

    What is dropped depends on the seed that Keras gives the layer, the number of calls
    and the place in the batch alone: it is the same on the three backends, and however
    `fit` splits the rows of a batch, the first axis, over devices and micro-batches.

    Args:
        rate: 0 to 1; 0 and 1 are exact.
        noise_shape, seed: with one of these, it is Keras' own dropout.

    Call arguments:
        inputs: (B, T, D), or any other shape; floating.
        training: whether to drop anything.

    Returns:
        The shape and dtype of the inputs.

    Raises:
        ValueError: under a `keras.RematScope` that has it computed again, where that
            would drop other elements; on PyTorch it drops the same.

    Example:

    >>> import keras
    >>> from keras_transformer.layers.dropout import Dropout
    >>> float(keras.ops.max(Dropout(0.5)(keras.ops.ones((8, 64)), training=True)))
    2.0

    Reference: Srivastava et al., 2014, https://jmlr.org/papers/v15/srivastava14a.html.
    """

    def __init__(self, rate: float, **kwargs: Any) -> None:
        super().__init__(rate, **kwargs)
        self._dropped = min(max(round(256 * rate), 1), 255)  # of 256

    @property
    def draws_by_row(self) -> bool:
        """Whether masks depend on the row in the batch: this class draws them."""
        return self.rate not in (0, 1) and not self._is_kerass

    @property
    def _is_kerass(self) -> bool:
        return self.seed is not None or bool(self.noise_shape)

    def call(self, inputs: Tensor, training: bool = False) -> Tensor:
        if not training or self.rate in (0, 1):
            return super().call(inputs, training=training)
        self._check_recomputation(self._is_kerass)
        if self._is_kerass:
            return super().call(inputs, training=training)
        random_bytes = backends.random_bytes(inputs, self.seed_generator)
        scaled = inputs * (256 / (256 - self._dropped))
        return backends.zero_where_below(scaled, random_bytes, self._dropped)

    def _check_recomputation(self, keras_own: bool) -> None:
        """Raises where the backward pass would draw another dropout mask."""
        mode = getattr(getattr(self, "_remat_mode", None), "mode", None)
        again = mode not in (None, "activations")
        if again and (keras_own or backends.name == "tensorflow"):
            raise ValueError(
                f"{self.name}: a RematScope computes this layer twice with different "
                f"dropout masks, and the gradients would be wrong; leave out the "
                f"scope, or use PyTorch and neither noise_shape nor seed"
            )
