"""Pieces of a new vocabulary, found again among those of an old one.

V vocabulary size.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from keras_transformer.data.piece_table import PieceTable

_BYTE = re.compile("<0x[0-9A-F]{2}>")


def old_rows(old: PieceTable, new: PieceTable) -> list[list[int]]:
    """The old ids that each new id comes from.

    One id where the old vocabulary has the same piece, or the same special id; the ids
    of its parts, the longest first from left to right, where it has none; no id where
    no part of it is known.

    Args:
        old: V ids.
        new: V' ids.

    Returns:
        V' lists.

    Example:

    >>> from keras_transformer.data.new_pieces import old_rows
    >>> from keras_transformer.data.tokenizer import Tokenizer
    >>> old = Tokenizer.train(["low er"] * 9, vocabulary_size=268)
    >>> new = Tokenizer.train(["lower"] * 9, vocabulary_size=268)
    >>> rows = old_rows(old, new)
    >>> for number in new.encode(["lower"])[0]:
    ...     print(new.pieces([number]), "from", old.pieces(rows[number]))
    ['low'] from ['lo', 'w']
    ['er'] from ['er']
    """
    roles = [{**table.special_ids, "unknown": table.unknown_id} for table in (old, new)]
    special = {roles[1][role]: roles[0][role] for role in reversed(roles[0])}
    pieces = old.spelled(range(old.vocabulary_size))
    old_ids = {
        piece: number
        for number, piece in reversed([*enumerate(pieces)])
        if number not in roles[0].values()
    }
    longest = max(map(len, old_ids), default=0)
    rows = []
    for number, piece in enumerate(new.spelled(range(new.vocabulary_size))):
        if number in special:
            rows.append([special[number]])
        elif piece in old_ids or _BYTE.fullmatch(piece):
            rows.append([old_ids[piece]] if piece in old_ids else [])
        else:
            rows.append(_parts(piece, old_ids, longest))
    return rows


def _parts(piece: str, known: Mapping[str, int], longest: int) -> list[int]:
    """The ids of the parts of a piece; bytes where a character is no piece."""
    parts: list[int] = []
    start = 0
    while start < len(piece):
        ends = range(min(len(piece), start + longest), start, -1)
        end = next((end for end in ends if piece[start:end] in known), None)
        if end is None:
            spelled = [f"<0x{byte:02X}>" for byte in piece[start].encode()]
            parts += [known[byte] for byte in spelled if byte in known]
            start += 1
        else:
            parts.append(known[piece[start:end]])
            start = end
    return parts
