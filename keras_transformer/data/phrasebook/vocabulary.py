"""The vocabulary of the phrasebook: the words that a model has learned from it."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from collections.abc import Sequence

from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.known_words import parts
from keras_transformer.data.phrasebook import LANGUAGES
from keras_transformer.data.phrasebook import load

_NAMES = {"en": "English", "de": "German", "fr": "French"}
_EXAMPLES = 3
_WORDS_OF_EXAMPLE = range(4, 9)


@functools.cache
def known_words(language: str) -> KnownWords:
    """The words of the training part in one of its languages.

    Args:
        language: `"en"`, `"de"` or `"fr"`.

    Raises:
        InputError: an unknown language.

    Example:

    >>> known_words("de").unknown_in("Das Zimmer kostet neunhundertneun Pfifferlinge.")
    ['Pfifferlinge']
    """
    other = next(each for each in LANGUAGES if each != language)
    sentences, _ = load(language, other, "train")
    numbers = KnownWords(
        description="numbers",
        words=frozenset(),
        number_words=frozenset(_german_numbers() if language == "de" else ()),
    )
    different = {each for sentence in sentences for each in sentence.split()}
    words = set(_words(" ".join(different), language))
    return KnownWords(
        description=f"{_NAMES[language]} words of the embedded phrasebook",
        words=frozenset(
            word
            for word in words
            if ((small := word[0].lower() + word[1:]) == word or small not in words)
            and not numbers.is_number(small)
        ),
        number_words=numbers.number_words,
        examples=_examples(sentences),
    )


def _words(text: str, language: str) -> Iterator[str]:
    """What is known of a text: `"l'"` and `"eau"`, `"Paul"` and `"'s"`."""
    for _, part in parts(text):
        if language == "fr":
            *elided, word = part.split("'")
            yield from (f"{each}'" for each in elided)
            yield word
        elif part.endswith("'s"):
            yield part.removesuffix("'s")
            yield "'s"
        else:
            yield part


def _examples(sentences: Sequence[str]) -> tuple[str, ...]:
    """Some short sentences."""
    short = [one for one in sentences if len(one.split()) in _WORDS_OF_EXAMPLE]
    return tuple(short[:_EXAMPLES])


def _german_numbers() -> Iterator[str]:
    """The words that German numbers are strung together from, the ordinals too."""
    ones = "ein eins zwei drei vier fünf sechs sieben acht neun"
    first = "erst zweit dritt viert fünft sechst siebt acht neunt"
    teens = "zehn elf zwölf dreizehn vierzehn fünfzehn sechzehn siebzehn achtzehn"
    teens = f"{teens} neunzehn"
    large = "zwanzig dreißig vierzig fünfzig sechzig siebzig achtzig neunzig"
    large = f"{large} hundert tausend"
    yield from f"{ones} {teens} {large} und".split()
    for words, ending in ((first, "e"), (teens, "te"), (large, "ste")):
        for word in words.split():
            yield from (f"{word}{ending}{case}" for case in ("", *"mnrs"))
