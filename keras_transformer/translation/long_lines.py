"""Splitting of lines that are too long for a model."""

import re
from collections.abc import Callable
from typing import NamedTuple

# The end of a sentence: punctuation, closing quotation marks, and white space, which
# scripts with a full-width full stop do without. A row of marks is matched once, as a
# whole: backtracking would cost the square of its length.
_END = re.compile(
    r"(?<![.!?…])[.!?…]++[\"'”“’‘»«›‹)\]]*+(?:\s+|$)|[。！？]+[”’」』）]*\s*"
)


class LinePart(NamedTuple):
    """A part of a line, and the white space between it and the next."""

    text: str
    separator: str


def split_line(line: str, fits: Callable[[str], bool]) -> list[LinePart]:
    """Splits a line into sentences, and sentences that are too long into halves.

    Sentences end at punctuation, by a simple rule for all languages. A sentence that is
    too long is halved at the space nearest to its middle until its parts fit; without a
    space, between two characters.

    Args:
        line: any text; texts and separators, joined, equal it.
        fits: whether a text is short enough. Single characters are never split.

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


def space_after(text: str) -> str:
    """The separator after a text whose source has none: a space, if it uses any."""
    # Characters from here on belong to East Asian scripts, which have no spaces.
    return " " if "" < text[-1:] < "\u2e80" else ""


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
