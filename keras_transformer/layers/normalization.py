"""Normalization of hidden states, by the names that configs give.

B batch, T positions, D hidden_dim.
"""

from __future__ import annotations

from typing import Any

import keras

NORMALIZATIONS = {
    "layer": keras.layers.LayerNormalization,
    "rms": keras.layers.RMSNormalization,
}


def normalization(kind: str, epsilon: float, **kwargs: Any) -> Any:
    """A layer that normalizes the last axis: (B, T, D) -> (B, T, D), in float32.

    Args:
        kind: `"layer"` (weights `gamma` and `beta`) or `"rms"` (a weight `scale`).
        epsilon: added to the variance, or to the mean square.
        **kwargs: of the Keras layer, such as its `dtype` and `name`.

    Raises:
        ValueError: another kind.

    Example:

    >>> import keras
    >>> from keras_transformer.layers.normalization import normalization
    >>> tuple(normalization("rms", 1e-6)(keras.ops.ones((3, 5, 16))).shape)
    (3, 5, 16)

    Reference: layer normalization: Ba et al., 2016, https://arxiv.org/abs/1607.06450;
    RMS: Zhang and Sennrich, 2019, https://arxiv.org/abs/1910.07467.
    """
    if kind not in NORMALIZATIONS:
        raise ValueError(
            f"normalization must be one of {', '.join(NORMALIZATIONS)}, got {kind!r}"
        )
    return NORMALIZATIONS[kind](epsilon=epsilon, **kwargs)
