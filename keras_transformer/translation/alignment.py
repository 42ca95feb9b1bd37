"""Word alignment: pairs of source words and words of their translation.

T target positions, S source positions.
"""

import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from keras_transformer.data.piece_table import SPACE_MARK

_BYTES = re.compile(r"(<0x[0-9A-F]{2}>)+")


def align(
    weights: np.ndarray, source: Sequence[str], target: Sequence[str]
) -> list[tuple[int, int]]:
    """Pairs of source and target words, counted from 0.

    Each target piece is aligned with the source piece that its position attends to
    most, among pieces of words (ties: the first). Two words are a pair where any of
    their pieces are.

    Args:
        weights: (T, S) or larger, the attention of the positions that predict the
            pieces.
        source: the S source pieces, without the end token.
        target: the T target pieces, without the end token.

    Returns:
        Pairs (i, j), sorted; words are separated by white space.

    Example:

    >>> align(np.eye(3), ["a", "▁li", "on"], ["ein", "▁Lö", "we"])
    [(0, 0), (1, 1)]

    Reference: Garg et al., 2019, https://arxiv.org/abs/1909.02074, section 3.
    """
    source_words, target_words = word_numbers(source), word_numbers(target)
    words = {i: word for i, word in enumerate(source_words) if word is not None}
    columns = list(words)
    if not columns:
        return []
    pairs: set[tuple[int, int]] = set()
    for row, word in enumerate(target_words):
        if word is not None:
            best = columns[int(np.argmax(weights[row][columns]))]
            pairs.add((words[best], word))
    return sorted(pairs)


def word_numbers(pieces: Sequence[str]) -> list[int | None]:
    """The number, from 0, of each piece's word; None for white space.

    Example:

    >>> word_numbers(["▁I", "▁", "can", "n", "ot"])
    [0, None, 1, 1, 1]
    """
    data, starts = b"", []
    for piece in pieces:
        starts.append(len(data))
        data += piece_bytes(piece)
    words: list[int | None] = []  # of each byte
    number, inside = -1, False
    for character in data.decode(errors="surrogateescape"):
        space = character.isspace()
        number += not space and not inside
        inside = not space
        size = len(character.encode(errors="surrogateescape"))
        words += [None if space else number] * size
    return [
        next((word for word in words[start:end] if word is not None), None)
        for start, end in pairwise([*starts, len(data)])
    ]


def piece_bytes(piece: str) -> bytes:
    r"""The UTF-8 bytes of a piece; possibly a part of a character.

    Example:

    >>> piece_bytes("▁ä"), piece_bytes("<0xE2><0x82>")
    (b' \xc3\xa4', b'\xe2\x82')
    """
    if _BYTES.fullmatch(piece):
        return bytes.fromhex(piece.replace("<0x", "").replace(">", ""))
    return piece.replace(SPACE_MARK, " ").encode()
