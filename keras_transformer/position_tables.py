"""Tables of positions that need no Keras: sinusoids, and ranges of distances.

D hidden_dim.
"""

from __future__ import annotations

import functools

import numpy as np

#: The layout of sinusoids, by the name that `TransformerConfig.position` has for it.
LAYOUTS = {
    "sinusoidal": "interleaved",
    "sinusoidal_halves": "halves",
    "sinusoidal_halves_t2t": "halves_t2t",
}


def frequencies(hidden_dim: int, layout: str = "interleaved") -> np.ndarray:
    """The D / 2 angular frequencies, float64: 10000^(-2i / D).

    `"halves_t2t"` has the exponent -i / (D / 2 - 1) of Tensor2Tensor and Marian's
    relatives instead.
    """
    pairs = hidden_dim // 2
    divisor = max(pairs - 1, 1) if layout == "halves_t2t" else pairs
    return 10_000.0 ** (-np.arange(pairs) / divisor)


def sinusoidal_table(
    length: int, hidden_dim: int, layout: str = "interleaved", offset: int = 0
) -> np.ndarray:
    """PE of positions offset .. offset + length - 1: (length, D) float32.

    Computed in float64, rounded once.

    Example:

    >>> from keras_transformer.layers import sinusoidal_table
    >>> sinusoidal_table(2, 4)[0]
    array([0., 1., 0., 1.], dtype=float32)
    """
    return _sinusoidal_table(length, hidden_dim, layout, offset).copy()


@functools.lru_cache(maxsize=64)
def _sinusoidal_table(
    length: int, hidden_dim: int, layout: str, offset: int
) -> np.ndarray:
    positions = np.arange(offset, offset + length, dtype=np.float64)
    angles = positions[:, None] * frequencies(hidden_dim, layout)  # (length, D / 2)
    axis = 2 if layout == "interleaved" else 1
    table = np.stack([np.sin(angles), np.cos(angles)], axis=axis)
    return table.reshape(length, hidden_dim).astype(np.float32)


def bucket_starts(num_buckets: int, max_distance: int) -> np.ndarray:
    """The smallest distance of each bucket of one direction, (num_buckets,) int.

    The first half of the buckets hold a distance each, the others ranges that grow
    with its logarithm up to `max_distance`.

    Example:

    >>> from keras_transformer.position_tables import bucket_starts
    >>> bucket_starts(8, 20).tolist()
    [0, 1, 2, 3, 4, 6, 9, 14]
    """
    exact = num_buckets // 2
    distances = np.arange(exact, max_distance + 1, dtype=np.float32)
    # In float32, as every implementation of the paper: at the edge of a range the
    # rounding decides.
    ratio = np.log(distances / np.float32(exact), dtype=np.float32)
    ratio = ratio / np.float32(np.log(max_distance / exact))
    buckets = exact + (ratio * np.float32(num_buckets - exact)).astype(np.int64)
    later = [
        int(distances[np.argmax(buckets >= bucket)])
        for bucket in range(exact, num_buckets)
    ]
    return np.array([*range(exact), *later], dtype=np.int32)
