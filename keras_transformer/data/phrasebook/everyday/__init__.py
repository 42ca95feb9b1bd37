"""The everyday part of the phrasebook: a grammar of English, German and French.

A sentence is drawn as a meaning (`meaning.py`), which each language says in its own
words (`english.py`, `german.py`, `french.py`), from a lexicon in tables (`lexicon.py`).
English "you" is "Sie" and "vous", one person, and formal.

README.md beside this file says more.
"""

from __future__ import annotations

import dataclasses
import random
import re
from collections.abc import Iterator

from keras_transformer.data.phrasebook.everyday import english
from keras_transformer.data.phrasebook.everyday import french
from keras_transformer.data.phrasebook.everyday import german
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.kinds import KINDS
from keras_transformer.data.phrasebook.everyday.marks import marks_of
from keras_transformer.data.phrasebook.everyday.marks import split_of
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.words import Phrase

__all__ = ["KINDS", "Translation", "generate", "sentences", "trial"]


@dataclasses.dataclass(frozen=True)
class Translation:
    """One sentence in all languages.

    Args:
        texts: English, German and French.
        kind: a key of `KINDS`.
        marks: the pairs of words in it that may be held out together: "drink milk".
    """

    texts: tuple[str, str, str]
    kind: str
    marks: tuple[str, ...]


def say(meaning: Sentence | Phrase) -> tuple[str, str, str]:
    """A meaning in English, German and French."""
    if isinstance(meaning, Phrase):
        french_text = re.sub(" (?=[?!])", "\u202f", meaning.french)
        return meaning.english, meaning.german, french_text
    return (
        english.sentence(meaning),
        german.sentence(meaning),
        french.sentence(meaning),
    )


def generate(stream: random.Random, kind: str | None = None) -> Translation:
    """Draws one sentence.

    Args:
        stream: the source of all choices.
        kind: a key of `KINDS`; by default each comes as often as its weight there.

    Returns:
        The sentence; other calls may give the same.

    Example:

    >>> for text in generate(random.Random(2), "command").texts:
    ...     print(text)
    Turn off the broken radio.
    Schalten Sie das kaputte Radio aus.
    Éteignez la radio cassée.
    """
    draw = Draw(stream)
    if kind is None:
        kind = draw.weighted({name: weight for name, (weight, _) in KINDS.items()})
    meaning = KINDS[kind][1](draw)
    return Translation(say(meaning), kind, marks_of(meaning))


def sentences(seed: int | str, count: int, split: str = "") -> Iterator[Translation]:
    """Draws different sentences, none of which is one of `trial`.

    Args:
        seed: equal seeds give equal sentences.
        count: how many.
        split: `"train"`, `"validation"` or `"test"`: sentences of this split alone. A
            sentence of the last two joins words that `"train"` never joins, such as a
            verb and its object; by default, all sentences come.

    Yields:
        Sentences of which no two have the same text in any language.

    Example:

    >>> for sentence in sentences("a seed", 2, "train"):
    ...     print(sentence.texts[0])
    Please dance.
    The student has this photo.
    """
    stream = random.Random(seed)
    seen = {text for row in trial() for text in row.all_texts()}
    while count:
        sentence = generate(stream)
        texts = set(enumerate(sentence.texts))
        if seen & texts or (split and split_of(sentence.marks) != split):
            continue
        seen |= texts
        count -= 1
        yield sentence


@dataclasses.dataclass(frozen=True)
class Trial:
    """A sentence written by hand to try a model with, and its right translations.

    Args:
        feature: the part of the grammar it tries.
        english: the sentence.
        german: its German, or two that are right.
        french: its French, or two.
    """

    feature: str
    english: str
    german: tuple[str, ...]
    french: tuple[str, ...]

    def all_texts(self) -> Iterator[tuple[int, str]]:
        """Each text with the index of its language."""
        yield 0, self.english
        yield from ((1, text) for text in self.german)
        yield from ((2, text) for text in self.french)


def trial() -> tuple[Trial, ...]:
    """A hundred short sentences, ten for each of ten features of the grammar."""
    return tuple(
        Trial(feature, source, tuple(german.split("|")), tuple(french.split("|")))
        for feature, source, german, french in lexicon.rows("trial")
    )
