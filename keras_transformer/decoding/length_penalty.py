"""Length penalty: how the score of a hypothesis accounts for its length."""

from __future__ import annotations

from keras import ops

from keras_transformer.tensors import Tensor


def length_penalty(length: Tensor, alpha: float) -> Tensor:
    """((5 + length) / 6)^alpha; a score is log-probability / penalty.

    Args:
        length: number of tokens with the end token, without the start token.
        alpha: 0 switches it off; the paper's is 0.6.

    Example:

    >>> from keras_transformer.decoding import length_penalty
    >>> float(length_penalty(7, alpha=1.0))
    2.0

    Reference: Wu et al., 2016, https://arxiv.org/abs/1609.08144, equation 14.
    """
    return ((5.0 + ops.cast(length, "float32")) / 6.0) ** alpha


def normalized(
    log_probability: Tensor, length: Tensor, normalization: str, alpha: float
) -> Tensor:
    """The score of a hypothesis: its log-probability, divided for its length.

    Each divisor grows with the length, or stays. That makes a search's early end safe:
    a log-probability is at most 0 and only falls as tokens are added, so no
    continuation scores better than what the log-probability of today would score at
    the greatest length allowed.

    Args:
        log_probability: at most 0.
        length: number of tokens with the end token, without the start token.
        normalization: `"gnmt"` divides by `length_penalty`, `"average"` by the length
            (of no tokens: by 1), `"none"` by nothing.
        alpha: of `"gnmt"`.

    Example:

    >>> from keras_transformer.decoding.length_penalty import normalized
    >>> float(normalized(-6.0, 4, "average", alpha=0.6))
    -1.5
    """
    if normalization == "gnmt":
        return log_probability / length_penalty(length, alpha)
    if normalization == "average":
        return log_probability / ops.cast(ops.maximum(length, 1), "float32")
    if normalization == "none":
        return log_probability
    raise ValueError(
        f'normalization must be "gnmt", "average" or "none", got {normalization!r}'
    )
