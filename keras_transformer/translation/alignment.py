"""Word alignment: pairs of source words and words of their translation.

T target positions, S source positions.
"""

import dataclasses
import re
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from keras_transformer.config.languages import Direction
from keras_transformer.data.piece_table import SPACE_MARK
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.translation.hypothesis import Hypothesis

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


def aligned(
    row: Sequence[Hypothesis],
    weights: Sequence[np.ndarray],
    source: Sequence[int],
    direction: Direction,
    text: str,
    tokenizers: tuple[Tokenizer, Tokenizer],
    num_forced: int,
) -> list[Hypothesis]:
    """The hypotheses of a source, with alignments.

    Args:
        row: the hypotheses.
        weights: the attention (T, S) of each hypothesis.
        source: the ids of the source.
        direction: what stands around its text.
        text: the source.
        tokenizers: of source and target.
        num_forced: how many first tokens of the hypotheses are no text.
    """
    start = len(direction.source_before)
    inner = source[start : len(source) - len(direction.source_after)]
    pieces = tokenizers[0].spelled(inner)
    # Below 0 for words of the prefix.
    num_before = len(direction.prefix.split())
    words = tokenizers[0].source_words(direction.prefix + text)
    unknown = tokenizers[1].unknown_id
    (unknown_text,) = tokenizers[1].decode([[unknown]])
    texts = {unknown: unknown_text}  # words of ids that are not parts of words
    found = []
    for hypothesis, attention in zip(row, weights, strict=True):
        ids = hypothesis.ids[: len(hypothesis.tokens)]
        written = [
            texts.get(token, piece)
            for token, piece in zip(ids, tokenizers[1].spelled(ids), strict=True)
        ]
        pairs = align(attention[num_forced:, start:], pieces, written[num_forced:])
        alignment = {(words[i] - num_before, j) for i, j in pairs}
        kept = sorted((i, j) for i, j in alignment if i >= 0)
        found.append(dataclasses.replace(hypothesis, alignment=kept))
    return found


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
