"""Length penalty: normalization of a hypothesis' score for its length."""

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
    """The score of a hypothesis: its log-probability, normalized for length.

    No divisor falls with the length. That makes the early end of a search safe: a
    log-probability is at most 0 and only falls as tokens are added, so no continuation
    scores better than the current log-probability at the greatest length allowed.

    Args:
        log_probability: at most 0.
        length: number of tokens with the end token, without the start token.
        normalization: `"gnmt"` divides by `length_penalty`, `"power"` by
            length^alpha, `"average"` by the length, `"none"` does not divide. The
            length counts as at least 1.
        alpha: the alpha of `"gnmt"` and `"power"`, at least 0.

    Example:

    >>> from keras_transformer.decoding.length_penalty import normalized
    >>> float(normalized(-6.0, 4, "average", alpha=0.6))
    -1.5
    >>> float(normalized(-6.0, 4, "power", alpha=0.5))
    -3.0
    """
    if normalization == "gnmt":
        return log_probability / length_penalty(length, alpha)
    if normalization == "power":
        return log_probability / ops.cast(ops.maximum(length, 1), "float32") ** alpha
    if normalization == "average":
        return log_probability / ops.cast(ops.maximum(length, 1), "float32")
    if normalization == "none":
        return log_probability
    raise ValueError(
        f'normalization must be "gnmt", "power", "average" or "none", got '
        f"{normalization!r}"
    )
