"""Sentences of a text: a model translates one at a time.

The rules of sentence ends are those of the library `sentencex`.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from keras_transformer.config.near_codes import two_letter_code
from keras_transformer.errors import InputError
from keras_transformer.translation.long_lines import LinePart
from keras_transformer.translation.long_lines import space_after

#: Abbreviations that the library takes for the end of a sentence, and how it goes on.
_GOES_ON = {
    "en": re.compile(r"(?<!\w)Ms\. \w"),
    "fr": re.compile(r"(?<!\w)(?:janv|févr|avr|juil|sept|oct|nov|déc)\. \d"),
}
_WIDE_SPACE = re.compile(r"[^\S\x00-\x7f]")  # of several bytes
_WINDOW = 4096  # characters
_LONGEST = 8  # characters of one of them, and one before it


def split_sentences(text: str, language: str | None = None) -> list[LinePart]:
    r"""The sentences of a text, each with the white space behind it.

    A line break ends a sentence. White space in front of the first one is a part of its
    own, whose text is empty. Texts and separators, joined, equal the text.

    Args:
        text: any text.
        language: its code, such as `de` or `deu_Latn`; English where it is not known.

    Raises:
        InputError: where `sentencex` is not installed.

    Example:

    >>> from keras_transformer.translation.sentence_splitting import split_sentences
    >>> split_sentences("Dr. Ada sleeps.  She dreams.\n\nIt rains.")  # doctest: +SKIP
    [LinePart(text='Dr. Ada sleeps.', separator='  '),
     LinePart(text='She dreams.', separator='\n\n'),
     LinePart(text='It rains.', separator='')]
    """
    _library()  # also for a text without sentences
    code = two_letter_code(language) if language else "en"
    contents, gaps = [""], [[""]]
    for line in text.splitlines(keepends=True):
        if line.isspace():
            gaps[-1].append(line)
            continue
        for piece in _pieces(code, line):
            content = piece.strip()
            if not content:
                gaps[-1].append(piece)
                continue
            start = piece.index(content)
            gaps[-1].append(piece[:start])
            contents.append(content)
            gaps.append([piece[start + len(content) :]])
    parts = [
        LinePart(content, "".join(gap))
        for content, gap in zip(contents, gaps, strict=True)
    ]
    return parts if any(parts[0]) or len(parts) == 1 else parts[1:]


def _pieces(code: str, line: str) -> list[str]:
    """The sentences of a line, each with the white space around it."""
    goes_on, before = _GOES_ON.get(code), ""
    pieces: list[list[str]] = []
    for piece in _segments(code, line):
        seam = f"{before.rstrip()[-_LONGEST:]} {piece.lstrip()[:1]}"
        if goes_on and goes_on.search(seam):
            pieces[-1].append(piece)
        else:
            pieces.append([piece])
        before = piece
    return list(map("".join, pieces))


def _segments(code: str, line: str) -> Iterator[str]:
    """What the library finds in a line, of which it sees a window at a time.

    Its work grows with the square of some texts.
    """
    segment = _library().segment
    start = 0
    begun: list[str] = []  # of a sentence that fills whole windows
    while start < len(line):
        found = _found(segment, code, line[start : start + _WINDOW])
        is_last = start + _WINDOW >= len(line)
        if len(found) > 1 and not is_last:  # the last one may go on behind the window
            found.pop()
        elif not is_last:
            begun += found
            start += _WINDOW
            continue
        start += sum(map(len, found))
        first, *others = found
        yield "".join([*begun, first])
        yield from others
        begun = []


def _found(segment: Callable[..., list[str]], code: str, window: str) -> list[str]:
    """The library's pieces of a window.

    It counts bytes where it means characters, and panics after a capital letter at a
    space that has several. So it is shown plain spaces in their place.
    """
    found, place = [], 0
    for piece in segment(code, _WIDE_SPACE.sub(" ", window)):
        found.append(window[place : place + len(piece)])
        place += len(piece)
    return found


def join_sentences(translations: Sequence[str], parts: Sequence[LinePart]) -> str:
    """The text of translated sentences, with the white space of their source.

    Args:
        translations: that of each part.
        parts: of the source, see `split_sentences`.

    Example:

    >>> from keras_transformer.translation.long_lines import LinePart
    >>> from keras_transformer.translation.sentence_splitting import join_sentences
    >>> parts = [LinePart("你好。", ""), LinePart("对。", "")]
    >>> join_sentences(["Guten Tag.", "Ja."], parts)
    'Guten Tag. Ja.'
    """
    *first, last = zip(translations, parts, strict=True)
    texts = [text + (part.separator or space_after(text)) for text, part in first]
    return "".join([*texts, last[0] + last[1].separator])


def can_split() -> bool:
    """Whether `sentencex` is installed."""
    try:
        _library()
    except InputError:
        return False
    return True


def _library() -> Any:
    try:
        import sentencex
    except ModuleNotFoundError:
        raise InputError(
            "splitting a text into sentences needs the package sentencex, which is not "
            "installed; run pip install sentencex"
        ) from None
    return sentencex
