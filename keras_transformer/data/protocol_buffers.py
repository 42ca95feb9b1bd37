"""Protocol Buffers messages, such as SentencePiece models, read and written by field.

Reference: Protocol Buffers, Encoding,
https://protobuf.dev/programming-guides/encoding/, as of 2024.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

_VARINT, _COUNTED, _FLOAT = 0, 2, 5  # kinds of values
_FIXED = {1: 8, _FLOAT: 4}  # bytes of a value, by its kind
_MOST_BITS = 70  # of a number: ten bytes


def fields(message: bytes) -> Iterator[tuple[int, bytes]]:
    """The number and the content of each field; of a number, its bytes.

    Raises:
        ValueError: the bytes are not a message.
    """
    for number, content, _ in whole_fields(message):
        yield number, content


def whole_fields(message: bytes) -> Iterator[tuple[int, bytes, bytes]]:
    """As `fields`, and all bytes of each field, from which it can be written again."""
    at = 0
    while at < len(message):
        start = at
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
        yield key >> 3, message[at:end], message[start:end]
        at = end


def field(number: int, value: str | bytes | int | float) -> bytes:
    """A field of a message: text, bytes or a message; a number; or a float32."""
    if isinstance(value, float):
        return _varint(number << 3 | _FLOAT) + struct.pack("<f", value)
    if isinstance(value, int):
        return _varint(number << 3 | _VARINT) + _varint(value)
    content = value.encode() if isinstance(value, str) else value
    return _varint(number << 3 | _COUNTED) + _varint(len(content)) + content


def _varint(value: int) -> bytes:
    """A number that is not negative: seven bits per byte, lowest first."""
    written = bytearray()
    while value > 127:
        written.append(value & 127 | 128)
        value >>= 7
    return bytes([*written, value])


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
