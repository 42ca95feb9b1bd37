"""Kinds of the pieces of a SentencePiece model, read from its bytes.

SentencePiece's Python interface gives every kind but the user-defined one.
"""

from __future__ import annotations

from keras_transformer.data.protocol_buffers import fields

_PIECES = 1  # the field of a ModelProto; a piece's own kind is its field 3
_KIND = 3
_USER_DEFINED = b"\4"


def user_defined_ids(model: bytes) -> set[int]:
    """The ids of user-defined symbols, which are never split.

    Args:
        model: a serialized SentencePiece model.
    """
    pieces = [content for field, content in fields(model) if field == _PIECES]
    return {
        i
        for i, piece in enumerate(pieces)
        if (_KIND, _USER_DEFINED) in list(fields(piece))
    }
