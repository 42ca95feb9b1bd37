"""The scaled embedding matrix, read forwards for vectors, backwards for logits.

B batch, T positions, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_transformer import backends
from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import of_embeddings
from keras_transformer.layers.initial_values import serialized
from keras_transformer.layers.kernels import Kernels
from keras_transformer.layers.kernels import int8_product
from keras_transformer.layers.token_ids import whole_ids
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenEmbedding(Kernels):
    """E[ids] * √D; with `reverse=True`, hidden Eᵀ: the pre-softmax linear layer.

    Args:
        vocabulary_size: V.
        hidden_dim: D.
        scale: multiply the vectors by √D (not the logits).
        use_bias: a bias on the logits.
        embeddings_initializer: of E; default: normal with the deviation 1 / √D.
        bias_initializer: of the bias.

    Call arguments:
        inputs: ids (B, T), int or whole numbers in float32; with `reverse`, hidden
            states (B, T, D).
        reverse: give logits instead of vectors.

    Returns:
        (B, T, D) in the compute dtype; with `reverse`, (B, T, V) in float32.

    Raises:
        ValueError: ids are floats of half precision, or not whole numbers.

    Masking: none produced, see `layers.masks.padding_mask`; a Keras mask of the inputs
    is passed on.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import TokenEmbedding
    >>> embedding = TokenEmbedding(100, 16)
    >>> vectors = embedding(ops.array([[5, 6, 7]]))
    >>> tuple(vectors.shape), tuple(embedding(vectors, reverse=True).shape)
    ((1, 3, 16), (1, 3, 100))

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.4;
    Press and Wolf, 2017, https://arxiv.org/abs/1608.05859.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        scale: bool = True,
        use_bias: bool = False,
        embeddings_initializer: Any = None,
        bias_initializer: Any = "zeros",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.scale = scale
        self.use_bias = use_bias
        self.embeddings_initializer = given(embeddings_initializer)
        self.bias_initializer = given(bias_initializer)
        self.autocast = False  # it would round ids that come as floats

    kernel_names = ("embeddings",)
    kernel_axis = -1

    def build(self, inputs_shape: Shape | None = None) -> None:
        self.embeddings = self.add_weight(
            name="embeddings",
            shape=(self.vocabulary_size, self.hidden_dim),
            initializer=initializer(
                of_embeddings(self.embeddings_initializer, self.hidden_dim)
            ),
            autocast=False,  # see `_lookup`
        )
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                name="bias",
                shape=(self.vocabulary_size,),
                initializer=initializer(fresh(self.bias_initializer)),
                autocast=False,  # logits are float32
            )
        self.build_quantized()

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if reverse:
            return self._logits(inputs)
        ids = whole_ids(inputs, self.name)
        if self._is_int8:
            vectors = ops.cast(ops.take(self.embeddings, ids, axis=0), "float32")
            scales = ops.take(self.embeddings_scale, ids, axis=0)
            vectors = vectors / ops.expand_dims(scales, -1)
            vectors = ops.cast(vectors, self.compute_dtype)
        else:
            vectors = self._lookup(ids)
        return vectors * math.sqrt(self.hidden_dim) if self.scale else vectors

    def _logits(self, hidden: Tensor) -> Tensor:
        hidden = ops.cast(hidden, self.compute_dtype)
        if self._is_int8:
            kernel = ops.transpose(self.embeddings)
            logits = int8_product(hidden, kernel, self.embeddings_scale)
        else:
            matrix = self.matrix("embeddings")
            logits = backends.product_with_transposed(hidden, matrix)
        logits = ops.cast(logits, "float32")
        if self.bias is None:
            return logits
        # The same as a sum. XLA fuses a sum with the product before it, and for a
        # single row that costs a transposed copy of the whole matrix on a CPU.
        return logits - ops.negative(ops.cast(self.bias, "float32"))

    def _lookup(self, ids: Tensor) -> Tensor:
        """The rows of the ids, (..., D) in the compute dtype.

        Rows are taken before they are rounded to the compute dtype: their gradients are
        then summed in float32. In bfloat16 the sum of a frequent token, of some
        thousand rows, would stop growing; and GPUs add to it far more slowly.
        """
        rows = ops.take(super().matrix("embeddings"), ids, axis=0)
        return ops.cast(rows, self.compute_dtype)

    def matrix(self, name: str) -> Tensor:
        """The embeddings (V, D) in the compute dtype."""
        matrix = super().matrix(name)
        if keras.backend.standardize_dtype(matrix.dtype) == self.compute_dtype:
            return matrix
        return ops.cast(matrix, self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> Any:
        if reverse:
            shape = (*inputs.shape[:-1], self.vocabulary_size)
            return keras.KerasTensor(shape, "float32")
        whole_ids(inputs, self.name)
        return keras.KerasTensor((*inputs.shape, self.hidden_dim), self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        if reverse:
            return (*inputs_shape[:-1], self.vocabulary_size)
        return (*inputs_shape, self.hidden_dim)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "scale": self.scale,
            "use_bias": self.use_bias,
            "embeddings_initializer": serialized(self.embeddings_initializer),
            "bias_initializer": serialized(self.bias_initializer),
        }
