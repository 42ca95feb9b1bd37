"""Vocabularies whose pieces stand in a list with their merges, of BART and FSMT."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.data.listed_pieces import Rules
from keras_transformer.data.listed_pieces import serialized
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.families.fairseq_pieces import SPECIAL
from keras_transformer.importing.source import MOST_VOCABULARY_BYTES
from keras_transformer.importing.source import Source

MERGES = "merges.txt"


def merges_of(source: Source) -> list[tuple[str, str]]:
    """The merges of `merges.txt`: two pieces a line, and perhaps a count.

    Raises:
        InputError: where the file is missing, or a line has no two pieces.
    """
    lines = source.text(MERGES, MOST_VOCABULARY_BYTES).split("\n")
    if lines[0].startswith("#version"):
        lines[0] = ""
    merges = []
    for number, line in enumerate(lines, start=1):
        parts = line.split()
        if len(parts) >= 2:
            merges.append((parts[0], parts[1]))
        elif parts:
            raise InputError(
                f"{source.folder / MERGES}: line {number} has no two pieces; get the "
                f"file again"
            )
    return merges


def listed_tokenizer(
    source: Source,
    pieces: Sequence[str],
    merges: Sequence[tuple[str, str]],
    rules: Rules,
    size: int,
) -> Tokenizer:
    """The tokenizer of a list, filled up to the matrix.

    Args:
        source: the folder.
        pieces: the piece of each id.
        merges: pairs of pieces.
        rules: the rest.
        size: rows of the matrix.

    Raises:
        InputError: where there are more pieces than rows, or the list is damaged.
    """
    if len(pieces) > size:
        raise InputError(
            f"{source.folder} has {len(pieces)} pieces, but the matrix of config.json "
            f"has {size} rows; use the files that belong together"
        )
    fillers = [f"<unused {number}>" for number in range(len(pieces), size)]
    symbols = (*rules.symbols, *range(len(pieces), size))
    try:
        rules = Rules(**{**vars(rules), "symbols": symbols})
        return Tokenizer(serialized([*pieces, *fillers], merges, rules))
    except (InputError, ValueError) as error:
        raise InputError(f"{source.folder}: {error}") from None


def rules_of(
    source: Source, pieces: Sequence[str], config: TransformerConfig, **others: Any
) -> Rules:
    """The rules of a vocabulary that has fairseq's special pieces.

    Args:
        source: the folder.
        pieces: the piece of each id.
        config: of the model.
        others: fields of `Rules` beside the ids.

    Raises:
        InputError: where one of the pieces is missing.
    """
    ids = {piece: i for i, piece in enumerate(pieces)}
    for piece in SPECIAL:
        if piece not in ids:
            raise InputError(
                f"{source.folder}: the vocabulary lacks the piece {piece!r}; get all "
                f"files of the model again"
            )
    return Rules(
        pad=config.pad_id,
        start=config.start_id,
        end=config.end_id,
        unknown=ids["<unk>"],
        symbols=tuple(ids[piece] for piece in (*SPECIAL, "<mask>") if piece in ids),
        **others,
    )
