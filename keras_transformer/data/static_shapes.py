"""Few shapes for many lengths: a compiled program serves one shape.

Searches and scores are compiled; sentences come in any number and length.
"""

from collections.abc import Sequence

import numpy as np

from keras_transformer.errors import InputError


def batches_by_length(lengths: Sequence[int], batch_size: int) -> list[np.ndarray]:
    """Row numbers in batches of similar length, the longest first."""
    if batch_size < 1:
        raise InputError(f"batch_size must be at least 1, got {batch_size}")
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    return [order[i : i + batch_size] for i in range(0, len(order), batch_size)]


def bucket(length: int) -> int:
    """The next of 8, 16, 24, 32, 48, 64, 96, 128, ...: few shapes are compiled."""
    size = 8
    while size < length:
        size += max(8, 2 ** (size.bit_length() - 2))
    return size


def power_of_two(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()
