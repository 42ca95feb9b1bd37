"""Lines in pieces: what is in memory at once."""

import time
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from typing import Any

_LONGEST_WAIT = 0.1  # seconds, of the first line of a piece for others


def pieces(
    lines: Iterable[Any], size: int, ready: Callable[[float], bool] = lambda until: True
) -> Iterator[list[Any]]:
    """The lines in lists of `size`, or of fewer, where the next is not ready.

    Args:
        lines: any number.
        size: the most of them in a list.
        ready: whether the next one, or the end, is there by a time of
            `time.monotonic`.
    """
    piece: list[Any] = []
    until = 0.0
    for line in lines:
        if not piece:
            until = time.monotonic() + _LONGEST_WAIT
        piece.append(line)
        if len(piece) == size or not ready(until):
            yield piece
            piece = []
    if piece:
        yield piece
