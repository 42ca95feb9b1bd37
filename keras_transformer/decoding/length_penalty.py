"""How the score of a hypothesis accounts for its length."""

from keras import ops


def length_penalty(length, alpha):
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
