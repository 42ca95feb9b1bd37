"""The attention that follows words best, of all that a decoder has.

B batch, T target positions, S source positions, H heads, N layers.
"""

from keras import ops


def word_attention(weights):
    """Of N layers' cross-attention (B, H, T, S), one that follows words: (B, T, S).

    The mean of the heads of the last layer but one, in float32.

    Reference: Garg et al., 2019, https://arxiv.org/abs/1909.02074, section 3.
    """
    return ops.mean(ops.cast(weights[max(len(weights) - 2, 0)], "float32"), axis=1)
