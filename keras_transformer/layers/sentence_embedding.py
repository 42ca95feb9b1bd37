"""Sentence embedding: the vectors of its words, summed with weights for their order.

B batch, S sentences, J words of a sentence, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

from typing import Any

import keras
from keras import ops

from keras_transformer.layers.initial_values import fresh
from keras_transformer.layers.initial_values import given
from keras_transformer.layers.initial_values import initializer
from keras_transformer.layers.initial_values import serialized
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.layers.token_ids import whole_ids
from keras_transformer.tensors import Shape
from keras_transformer.tensors import Tensor

PAD_ID = 0


@keras.saving.register_keras_serializable(package="keras_transformer")
class SentenceEmbedding(keras.layers.Layer):
    """Σ_j l_j ⊙ E[word_j] + T[age]: one vector for each sentence of a story.

    Position encoding: of the j-th of J words, entry k of D is multiplied by
    l_jk = (1 - j/J) - (k/D) (1 - 2j/J), so that the order of words counts.
    Temporal encoding: T has a row for each age; the last sentence has the age 0. The id
    0 is no word, and a sentence without a word is no sentence: its vector is 0.

    Args:
        vocabulary_size: V.
        hidden_dim: D.
        max_sentences: rows of T, the longest story; None for no temporal encoding.
        position_encoding: whether words have weights; else they are only summed.
        embeddings_initializer: of E and T; default: normal with the deviation 0.1.

    Call arguments:
        inputs: ids of the sentences of stories (B, S, J), or of one sentence each
            (B, J), which has no age; int or whole numbers in float32. With `reverse`,
            vectors (B, D).
        reverse: give logits of words instead, the vectors times Eᵀ.

    Returns:
        (B, S, D) or (B, D) in the compute dtype; with `reverse`, (B, V) in float32.

    Raises:
        ValueError: a story has more than `max_sentences` sentences, or ids are not
            whole numbers, or have neither two nor three axes.

    Masking: of stories, the Keras mask (B, S) is True where there is a sentence.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.layers import SentenceEmbedding
    >>> embedding = SentenceEmbedding(100, 16, max_sentences=5)
    >>> tuple(embedding(ops.array([[[5, 6, 7], [8, 9, 0]]])).shape)
    (1, 2, 16)

    Reference: Sukhbaatar et al., 2015, https://arxiv.org/abs/1503.08895, section 4.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        max_sentences: int | None = None,
        position_encoding: bool = True,
        embeddings_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.supports_masking = True
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.max_sentences = max_sentences
        self.position_encoding = position_encoding
        self.embeddings_initializer = given(embeddings_initializer)
        self.autocast = False  # it would round ids that come as floats

    def build(self, inputs_shape: Shape | None = None) -> None:
        self.words = TokenEmbedding(
            self.vocabulary_size,
            self.hidden_dim,
            scale=False,
            embeddings_initializer=self._initializer(),
            dtype=self.dtype_policy,
            name="words",
        )
        self.words.build()
        self.ages = None
        if self.max_sentences is not None:
            self.ages = self.add_weight(
                name="ages",
                shape=(self.max_sentences, self.hidden_dim),
                initializer=initializer(self._initializer()),
                autocast=False,
            )

    def call(self, inputs: Tensor, reverse: bool = False) -> Tensor:
        if reverse:
            return self.words(inputs, reverse=True)
        self._check(inputs)
        ids = whole_ids(inputs, self.name)
        is_word = ops.cast(ops.not_equal(ids, PAD_ID), "float32")
        weights = ops.expand_dims(is_word, -1)  # (..., J, 1)
        if self.position_encoding:
            weights = weights * self._word_weights(is_word)
        vectors = weights * ops.cast(self.words(ids), "float32")
        vectors = ops.sum(vectors, axis=-2)
        if self.ages is not None and len(ids.shape) == 3:
            vectors = vectors + _of_ages(self.ages, ops.max(is_word, axis=-1))
        return ops.cast(vectors, self.compute_dtype)

    def compute_output_spec(self, inputs: Tensor, reverse: bool = False) -> Any:
        if reverse:
            shape = (*inputs.shape[:-1], self.vocabulary_size)
            return keras.KerasTensor(shape, "float32")
        self._check(inputs)
        whole_ids(inputs, self.name)
        shape = (*inputs.shape[:-1], self.hidden_dim)
        return keras.KerasTensor(shape, self.compute_dtype)

    def compute_output_shape(self, inputs_shape: Shape, reverse: bool = False) -> Shape:
        size = self.vocabulary_size if reverse else self.hidden_dim
        return (*inputs_shape[:-1], size)

    def compute_mask(self, inputs: Tensor, previous_mask: Any = None) -> Tensor | None:
        if len(inputs.shape) != 3:
            return None
        return ops.any(ops.not_equal(inputs, PAD_ID), axis=-1)

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "max_sentences": self.max_sentences,
            "position_encoding": self.position_encoding,
            "embeddings_initializer": serialized(self.embeddings_initializer),
        }

    def _initializer(self) -> Any:
        if self.embeddings_initializer is None:
            return keras.initializers.RandomNormal(stddev=0.1)
        return fresh(self.embeddings_initializer)

    def _check(self, ids: Tensor) -> None:
        shape = tuple(ids.shape)
        if len(shape) not in (2, 3):
            raise ValueError(
                f"{self.name} got ids of the shape {shape}, but stories are (batch, "
                f"sentences, words) and single sentences (batch, words)"
            )
        limit = self.max_sentences
        if len(shape) == 3 and limit is not None and (shape[1] or 0) > limit:
            raise ValueError(
                f"{self.name}: a story of {shape[1]} sentences is longer than "
                f"max_sentences {limit}; leave out its first ones, or train with a "
                f"larger max_sentences"
            )

    def _word_weights(self, is_word: Tensor) -> Tensor:
        """(..., J) -> l, (..., J, D) float32."""
        count = ops.sum(is_word, axis=-1, keepdims=True)
        place = ops.cumsum(is_word, axis=-1) / ops.maximum(count, 1.0)  # j/J
        place = ops.expand_dims(place, -1)
        entry = ops.arange(1, self.hidden_dim + 1, dtype="float32") / self.hidden_dim
        return (1.0 - place) - entry * (1.0 - 2.0 * place)


def _of_ages(table: Tensor, is_sentence: Tensor) -> Tensor:
    """T and (B, S) -> its rows for them, (B, S, D), 0 where there is no sentence."""
    count = ops.sum(is_sentence, axis=-1, keepdims=True)
    ages = is_sentence * (count - ops.cumsum(is_sentence, axis=-1))
    # Beyond the table a gather gives what it likes: its last row, or an error.
    last = table.shape[0] - 1
    rows = ops.take(table, ops.cast(ops.minimum(ages, last), "int32"), axis=0)
    rows = ops.where(ops.expand_dims(ages, -1) <= last, rows, float("nan"))
    rows = ops.cast(rows, "float32")
    return ops.expand_dims(is_sentence, -1) * rows
