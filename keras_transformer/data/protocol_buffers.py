"""Parser of Protocol Buffers messages, such as SentencePiece models, field by field.

Reference: Protocol Buffers, Encoding,
https://protobuf.dev/programming-guides/encoding/, as of 2024.
"""

from __future__ import annotations

from collections.abc import Iterator

_VARINT, _COUNTED = 0, 2  # kinds of values
_FIXED = {1: 8, 5: 4}  # bytes of a value, by its kind
_MOST_BITS = 70  # of a number: ten bytes


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the content of each field; of a number, its bytes.

    Raises:
        ValueError: the bytes are not a message.
    """
    at = 0
    while at < len(message):
        key, at = _number(message, at)
        kind = key & 7
        if kind == _VARINT:
            _, end = _number(message, at)
        elif kind == _COUNTED:
            size, at = _number(message, at)
            end = at + size
        elif kind in _FIXED:
            end = at + _FIXED[kind]
        else:
            raise ValueError(f"a field of the unknown kind {kind}")
        if end > len(message):
            raise ValueError("a truncated field")
        yield key >> 3, message[at:end]
        at = end


def _number(message: bytes, at: int) -> tuple[int, int]:
    """A varint (seven bits per byte, lowest first), and its end."""
    value = 0
    for shift in range(0, _MOST_BITS, 7):
        if at >= len(message):
            raise ValueError("a truncated number")
        byte = message[at]
        value |= (byte & 127) << shift
        at += 1
        if byte < 128:
            return value, at
    raise ValueError("a number without end")
