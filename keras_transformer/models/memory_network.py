"""End-to-end memory network: answers a question after several hops over a story.

B batch, S sentences, J words of a sentence, D hidden_dim, V vocabulary, K hops.
"""

from __future__ import annotations

from typing import Any
from typing import Self

import keras
from keras import ops

from keras_transformer.layers import MemoryHop
from keras_transformer.layers import SentenceEmbedding
from keras_transformer.tensors import Tensor


@keras.saving.register_keras_serializable(package="keras_transformer")
class MemoryNetwork(keras.Model):
    """A functional `keras.Model`: a story and a question to the logits of one word.

    K hops share K + 1 embeddings ("adjacent tying"): the k-th hop has its keys of the
    k-th and its values of the next one. The question is embedded as the first keys are,
    and the last embedding, read backwards, gives the logits.

    It is trained by `fit` with a cross-entropy of logits. For a linear start, train a
    model with `linear=True` until its validation loss falls no more, and go on with one
    without it that has been given its weights,
    `model.set_weights(beginning.get_weights())`.

    Args:
        vocabulary_size: V; the id 0 is no word.
        hidden_dim: D.
        num_hops: K.
        max_sentences: the longest story.
        linear: leave out the softmax of the hops.
        dtype: a dtype policy; default Keras' global one.

    Call arguments:
        inputs: `{"story": ids (B, S, J), "question": ids (B, J)}`; the number of words
            may differ between the two.

    Returns:
        (B, V) float32.

    Raises:
        ValueError: fewer hops than one, or a story that is too long.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.models import MemoryNetwork
    >>> model = MemoryNetwork(100, 16, num_hops=2, max_sentences=5)
    >>> story, question = ops.ones((3, 4, 6), "int32"), ops.ones((3, 5), "int32")
    >>> tuple(model({"story": story, "question": question}).shape)
    (3, 100)
    >>> tuple(model.attention(story, question).shape)
    (3, 2, 4)

    Reference: Sukhbaatar et al., 2015, https://arxiv.org/abs/1503.08895, sections 2.2
    and 4.1.
    """

    def __init__(
        self,
        vocabulary_size: int,
        hidden_dim: int,
        num_hops: int = 3,
        max_sentences: int = 50,
        linear: bool = False,
        dtype: Any = None,
        **kwargs: Any,
    ) -> None:
        if num_hops < 1:
            raise ValueError(f"num_hops is {num_hops}, but a memory has 1 or more hops")
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        embeddings = [
            SentenceEmbedding(
                vocabulary_size,
                hidden_dim,
                max_sentences,
                dtype=policy,
                name=f"embedding_{index}",
            )
            for index in range(num_hops + 1)
        ]
        hops = [
            MemoryHop(linear, dtype=policy, name=f"hop_{index + 1}")
            for index in range(num_hops)
        ]
        story = keras.Input((None, None), dtype="int32", name="story")
        question = keras.Input((None,), dtype="int32", name="question")
        logits, _ = _answer(embeddings, hops, story, question)
        super().__init__({"story": story, "question": question}, logits, **kwargs)
        self.dtype_policy = policy
        self.vocabulary_size = vocabulary_size
        self.hidden_dim = hidden_dim
        self.num_hops = num_hops
        self.max_sentences = max_sentences
        self.linear = linear
        self.embeddings = embeddings
        self.hops = hops

    def attention(self, story: Tensor, question: Tensor) -> Tensor:
        """The weight of each sentence in each hop: (B, S, J), (B, J) -> (B, K, S)."""
        _, weights = _answer(self.embeddings, self.hops, story, question)
        return ops.stack(weights, axis=1)

    def get_config(self) -> dict[str, Any]:
        return {
            "vocabulary_size": self.vocabulary_size,
            "hidden_dim": self.hidden_dim,
            "num_hops": self.num_hops,
            "max_sentences": self.max_sentences,
            "linear": self.linear,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(
        cls, config: dict[str, Any], custom_objects: dict[str, Any] | None = None
    ) -> Self:
        """A model of what `get_config` gives, with weights of its own."""
        return cls(**config)


def _answer(
    embeddings: list[SentenceEmbedding],
    hops: list[MemoryHop],
    story: Tensor,
    question: Tensor,
) -> tuple[Tensor, list[Tensor]]:
    """The logits (B, V), and the attention weights (B, S) of each hop."""
    query = embeddings[0](question)
    key, weights = embeddings[0](story), []
    for hop, embedding in zip(hops, embeddings[1:], strict=True):
        value = embedding(story)
        query, its = hop(query, key, value, return_attention_weights=True)
        weights.append(its)
        key = value
    return embeddings[-1](query, reverse=True), weights
