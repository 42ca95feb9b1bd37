"""Random words by hashing: identical on every backend, device and split.

The word of a place depends on the place and a seed alone (a counter-based generator;
Salmon et al., 2011, https://doi.org/10.1145/2063384.2063405), so each device computes
those of its rows, and a compiled program needs no state. The hash is a product, then
twice a shift to the right, XOR and product, as in MurmurHash3, with a key of two words
from the seed.

Written once for words whose products wrap around, unsigned or signed; a backend passes
functions for a `constant` and for a logical right `shift`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from keras_transformer.tensors import Tensor

_MULTIPLIERS = 0x9E3779B9, 0x85EBCA6B, 0xC2B2AE35  # the golden ratio; MurmurHash3's


def signed(value: int) -> int:
    """A word as a signed integer, since PyTorch cannot multiply unsigned ones."""
    return int(np.uint32(value).astype(np.int32))


def random_words(
    places: Tensor,
    seed: Tensor,
    constant: Callable[[int], Any],
    shift: Callable[[Tensor, int], Tensor],
) -> Tensor:
    """A word for each of the `places` (words); `seed`: two words."""
    step, first, second = map(constant, _MULTIPLIERS)

    def mixed(words: Tensor, key: Tensor | None = None) -> Tensor:
        words = (words ^ shift(words, 16)) * first
        words = words if key is None else words ^ key
        words = (words ^ shift(words, 13)) * second
        return words ^ shift(words, 16)

    one = mixed(seed[0] * step ^ seed[1])
    other = mixed(one * step ^ seed[0])
    return mixed(places * step ^ one, other)


def row_places(
    numbers: Tensor,
    size: Any,
    places: Callable[[Any], Tensor],
    whole_words: bool,
) -> tuple[Tensor, Tensor | None]:
    """The places of the words that make up rows of bytes, and the shifts of bytes.

    The concatenated bytes of all rows of a batch are those of the words 0, 1, ...; a
    part of a batch has only some of the rows.

    Args:
        numbers: the row numbers in the whole batch, (rows, 1).
        size: the number of bytes of a row.
        places: a function that returns 0, 1, ... (count,) in the dtype of `numbers`.
        whole_words: whether `size` is known to be a multiple of 4.

    Returns:
        Places (rows, words), and None, where rows are whole words; else places (rows,
        bytes) of a word for each byte, and how many bits to shift it to the right.
    """
    if whole_words:
        return numbers * (size // 4) + places(size // 4), None
    flat = numbers * size + places(size)
    return flat // 4, flat % 4 * 8
