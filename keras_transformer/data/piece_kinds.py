"""What kind each piece of a SentencePiece model is, read from its bytes.

SentencePiece's Python interface tells all kinds but the user-defined one.
"""

from __future__ import annotations

from collections.abc import Iterator

_PIECES = 1  # the field of a ModelProto; a piece's own kind is its field 3
_KIND = 3
_USER_DEFINED = 4
_VARINT, _EIGHT_BYTES, _COUNTED, _FOUR_BYTES = 0, 1, 2, 5


def user_defined_ids(model: bytes) -> set[int]:
    """The ids of the symbols that stay whole wherever they stand in a text.

    Args:
        model: serialized, as SentencePiece accepts it.

    Reference: Protocol Buffers, Encoding,
    https://protobuf.dev/programming-guides/encoding/, as of 2024.
    """
    pieces = [value for field, value in _fields(model) if field == _PIECES]
    return {
        i
        for i, piece in enumerate(pieces)
        if (_KIND, _USER_DEFINED) in list(_fields(piece))
    }


def _fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The number and value of each field of a message; a number's own bytes are it."""
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _number(message, at)
        else:
            size = {_EIGHT_BYTES: 8, _FOUR_BYTES: 4}.get(kind)
            if kind == _COUNTED:
                size, at = _number(message, at)
            value, at = message[at : at + size], at + size
        yield key >> 3, value


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A number of seven bits a byte, the lowest first, and where it ends."""
    value = shift = 0
    while True:
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
