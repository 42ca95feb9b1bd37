"""Static shapes: few padded shapes for many lengths, as each needs a compiled program.

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


def batches_by_tokens(
    lengths: Sequence[int], batch_tokens: int, batch_size: int
) -> list[np.ndarray]:
    """Row numbers in batches of similar length, the longest first.

    A batch has at most `batch_size` rows and, unless it is a single row, at most
    `batch_tokens` tokens, padding included.
    """
    if batch_tokens < 1 or batch_size < 1:
        raise InputError(
            f"batch_tokens {batch_tokens} and batch_size {batch_size} must be at least "
            f"1"
        )
    order = np.argsort(-np.asarray(lengths, np.int64), kind="stable")
    batches, start = [], 0
    while start < len(order):
        fitting = min(batch_tokens // bucket(int(lengths[order[start]])), batch_size)
        # The largest power of two: other batches are filled up to the next one.
        rows = 1 << max(fitting, 1).bit_length() - 1
        batches.append(order[start : start + rows])
        start += rows
    return batches


def bucket(length: int) -> int:
    """The next of 8, 16, 24, 32, 48, 64, 96, 128, ...: few shapes are compiled."""
    size = 8
    while size < length:
        size += max(8, 2 ** (size.bit_length() - 2))
    return size


def power_of_two(count: int) -> int:
    """The next power of two."""
    return 1 << (count - 1).bit_length()
