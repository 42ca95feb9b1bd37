"""Lines of text as UTF-8, the only form that SentencePiece reads."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Sequence

from keras_transformer.errors import InputError


def utf8_lines(
    lines: Iterable[str], first_line: int = 1, numbers: Sequence[int] | None = None
) -> Iterator[bytes]:
    """Each line as UTF-8.

    Args:
        lines: any text.
        first_line: the number of the first line, for messages.
        numbers: the number of each line, where they are not consecutive.

    Raises:
        InputError: where `lines` is one string, whose letters would be the lines, or a
            line is not text or holds a lone surrogate, with its number.
    """
    if isinstance(lines, str | bytes):
        raise InputError(
            f"expected a list of lines, got the one {type(lines).__name__} "
            f"{lines[:40]!r}; give [text], or the lines of a file by read_lines"
        )
    return _encoded(lines, first_line, numbers)


def _encoded(
    lines: Iterable[str], first_line: int, numbers: Sequence[int] | None
) -> Iterator[bytes]:
    for row, line in enumerate(lines):
        number = first_line + row if numbers is None else numbers[row]
        if not isinstance(line, str):
            raise InputError(
                f"line {number} is not text but {type(line).__name__}; give strings"
            )
        try:
            yield line.encode()
        except UnicodeEncodeError as error:
            raise InputError(
                f"line {number} holds the lone surrogate "
                f"U+{ord(line[error.start]):04X}, which is not a character; remove it"
            ) from None
