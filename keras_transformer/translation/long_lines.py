"""Lines that are too long for a model, in parts that are not."""

import re
from collections.abc import Callable
from typing import NamedTuple

# What ends a sentence, marks that close a quotation in some language, and white space,
# which writing systems with a full-width full stop do without. A row of marks is tried
# once, as a whole: in parts it would cost the square of its length.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”“’‘»«›‹)\]]*+(?:\s+|$)|[。！？]+[”’」』）]*\s*"
)


class LinePart(NamedTuple):
    """A part of a line, and the white space between it and the next."""

    text: str
    separator: str


def split_line(line: str, fits: Callable[[str], bool]) -> list[LinePart]:
    """A line in sentences, and sentences that are too long in windows.

    Sentences end with their punctuation, by a plain rule that knows no language. One
    that does not fit is halved, where a space is nearest to its middle, until it does;
    where there is no space, between two characters.

    Args:
        line: any text; joined, texts and separators give it back.
        fits: whether a text is short enough. A single character stays, though it be
            not.

    Example:

    >>> split_line("One. Two words!  Three?", lambda text: len(text) < 8)
    [LinePart(text='One.', separator=' '), LinePart(text='Two', separator=' '), \
LinePart(text='words!', separator='  '), LinePart(text='Three?', separator='')]
    """
    if fits(line):
        return [LinePart(line, "")]
    parts, start = [], 0
    for end in [match.end() for match in _END.finditer(line)] + [len(line)]:
        if start < end:
            parts += _windows(line[start:end], fits)
            start = end
    return parts


def _windows(text: str, fits: Callable[[str], bool]) -> list[LinePart]:
    content = text.rstrip()
    separator = text[len(content) :]
    if len(content) < 2 or fits(content):
        return [LinePart(content, separator)]
    middle = len(content) // 2
    matches = re.finditer(r"\s+(?=\S)", content)
    spaces = [match.end() for match in matches if match.start()]
    cut = min(spaces, key=lambda place: abs(place - middle), default=middle)
    first, second = content[:cut], content[cut:]
    last = _windows(second, fits)
    last[-1] = last[-1]._replace(separator=last[-1].separator + separator)
    return _windows(first, fits) + last
