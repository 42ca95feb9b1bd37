"""Text as careless people write it: another case, and typos."""

from __future__ import annotations

import unicodedata
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence

import numpy as np

#: The letters of an English keyboard, row by row.
_KEYBOARD = ("qwertyuiop", "asdfghjkl", "zxcvbnm")
_TYPOS = 0.1  # of the words of a text to score on
_JOINERS = ("\u200c", "\u200d")


def upper_cased(text: str) -> str:
    """The text in upper case."""
    return text.upper()


def lower_cased(text: str) -> str:
    """The text in lower case."""
    return text.lower()


def title_cased(text: str) -> str:
    """The text with the first letter of each word in upper case.

    A word is what stands between spaces; its other letters stay as they are.

    Example:

    >>> from keras_transformer.data.text_noise import title_cased
    >>> title_cased("it's a USB stick")
    "It's A USB Stick"
    """
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


#: What a line can be changed to, by the name of its option.
CASINGS: Mapping[str, Callable[[str], str]] = {
    "upper": upper_cased,
    "title": title_cased,
    "lower": lower_cased,
}


def noised(lines: Sequence[str]) -> dict[str, list[str]]:
    """Lines as they are (`"plain"`), in each case, and with typos (`"typos"`).

    The typos are in a tenth of the words, and the same each time.

    Example:

    >>> from keras_transformer.data.text_noise import noised
    >>> noised(["a Man"])["upper"]
    ['A MAN']
    """
    random = np.random.default_rng(1)
    return {
        "plain": list(lines),
        **{name: list(map(change, lines)) for name, change in CASINGS.items()},
        "typos": [with_typos(line, _TYPOS, random) for line in lines],
    }


def with_typos(text: str, share: float, random: np.random.Generator) -> str:
    """The text with a typo in some of its words.

    A word is a run of at least two letters. A typo is one of four, equally likely: two
    neighbouring letters change places, a letter is missing, doubled, or another one: of
    a to z a neighbour on an English keyboard, in other scripts a letter of the word. A
    letter takes its combining marks along; digits, punctuation, control characters and
    emoji stay.

    Args:
        text: one line.
        share: the probability of a typo in each word.
        random: the generator of a number for each word, and three for each typo.

    Example:

    >>> import numpy as np
    >>> from keras_transformer.data.text_noise import with_typos
    >>> with_typos("a man sleeps", 1.0, np.random.default_rng(1))
    'a msn sleeos'
    """
    parts = []
    for part in _words(text):
        if len(part) > 1 and random.random() < share:
            part = _mistyped(part, random)
        parts += part
    return "".join(parts)


def _words(text: str) -> Iterator[list[str]]:
    """The words as lists of letters with their marks; other characters alone."""
    word: list[str] = []
    for cluster in _clusters(text):
        if cluster[0].isalpha():
            word.append(cluster)
            continue
        if word:
            yield word
        yield [cluster]
        word = []
    if word:
        yield word


def _clusters(text: str) -> Iterator[str]:
    """Each character with the marks and joiners that belong to it."""
    cluster = ""
    for character in text:
        joins = character in _JOINERS or unicodedata.category(character)[0] == "M"
        if cluster and not joins and not cluster.endswith(_JOINERS):
            yield cluster
            cluster = ""
        cluster += character
    if cluster:
        yield cluster


def _mistyped(word: list[str], random: np.random.Generator) -> list[str]:
    kind, place = int(random.integers(4)), int(random.integers(len(word) - 1))
    before, letter, after = word[:place], word[place], word[place + 1 :]
    if kind == 0:
        return [*before, after[0], letter, *after[1:]]
    if kind == 1:
        return [*before, *after]
    if kind == 2:
        return [*before, letter, letter, *after]
    others = _neighbours(letter) or [other for other in word if other != letter]
    other = others[int(random.integers(len(others)))] if others else letter
    return [*before, other, *after]


def _neighbours(letter: str) -> list[str]:
    """The letters beside one of a to z on the keyboard, in its case."""
    for row in _KEYBOARD:
        place = row.find(letter.lower())
        if len(letter) == 1 and place >= 0:
            found = [row[i] for i in (place - 1, place + 1) if 0 <= i < len(row)]
            return [other.upper() if letter.isupper() else other for other in found]
    return []
