"""Token cutoff of SimCut: whole embeddings of some tokens become zero.

B sentences, T positions, D hidden_dim.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_transformer import backends
from keras_transformer.tensors import Tensor


def cut_tokens(
    vectors: Tensor, may_cut: Tensor, probability: float, seed_generator: Any
) -> Tensor:
    """Embeddings of which some are zero, in the second of each two rows.

    As in dropout, the probability is a whole number of 256ths, but nothing is scaled.
    What is cut depends on the seed and the place in the batch alone.

    Args:
        vectors: (2 B, T, D), each sentence twice.
        may_cut: (2 B, T) bool, False for tokens that stay.
        probability: of each token.
        seed_generator: as Keras' random functions take it.

    Reference: Gao et al., 2022, https://arxiv.org/abs/2206.02368, section 3.
    """
    ones = ops.ones_like(vectors[..., :1])
    random_bytes = backends.random_bytes(ones, seed_generator)
    share = min(max(round(256 * probability), 1), 255)
    kept = ops.greater(backends.zero_where_below(ones, random_bytes, share), 0)
    rows = ops.arange(0, ops.shape(vectors)[0], dtype="int32")
    is_first = ops.expand_dims(ops.equal(rows % 2, 0), (1, 2))
    stays = ops.expand_dims(ops.logical_not(may_cut), -1)
    kept = ops.logical_or(ops.logical_or(kept, is_first), stays)
    return ops.where(kept, vectors, ops.zeros_like(vectors))
