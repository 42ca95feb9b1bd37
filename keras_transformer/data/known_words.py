"""Words that a model has learned, and the unknown words of a text.

Stored in `known_words.json` of model folders and runs whose training text is a closed
language, such as the embedded phrasebook.
"""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated
from typing import Self

import pydantic

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_CONFIG_BYTES
from keras_transformer.files.plain_file import plain_file

#: The name of the file.
KNOWN_WORDS = "known_words.json"

_APOSTROPHE, _HYPHEN = "'", "-"


def _character(code: int) -> str | None:
    """What replaces a character before a text is split; None removes it."""
    character = chr(code)
    if character in "'\u2019":
        return _APOSTROPHE
    if character in "-\u2010\u2011":
        return _HYPHEN
    category = unicodedata.category(character)
    if category == "Cf":  # invisible, such as a soft hyphen
        return None
    return character if category[0] in "LMN" else " "


class _Characters(dict[int, str | None]):
    """A table for `str.translate` that fills itself with `_character`."""

    def __missing__(self, code: int) -> str | None:
        return _character(code)


_CHARACTERS = _Characters((code, _character(code)) for code in range(0x250))  # Latin


def _one_line(text: str) -> str:
    if text.splitlines() != [text]:
        raise ValueError("expected one line of text")
    return text


_Line = Annotated[str, pydantic.AfterValidator(_one_line)]


class KnownWords(pydantic.BaseModel):
    """The complete vocabulary of words of a model's training text.

    A word is known with a small and with a capital first letter, and so is one of known
    words with hyphens between. An apostrophe parts two words where one of them is known
    with it: `"l'"` before a known word, `"'s"` after one. Numbers, punctuation, single
    letters and codes such as "H-6414" are no words.

    Args:
        description: what the words are, to be read as "1,234 DESCRIPTION".
        words: the words, spelled as within a sentence.
        number_words: parts of written numbers, as in German: one of them, or several
            without a space, is known too.
        examples: some sentences of known words.

    Raises:
        pydantic.ValidationError: where a value has another type, or a description or
            example is not one line.

    Example:

    >>> known = KnownWords(description="English words", words={"the", "dog", "'s"})
    >>> known.unknown_in("The dog's tail, H-6414, is the cat's.")
    ['tail', 'is', "cat's"]
    """

    model_config = pydantic.ConfigDict(frozen=True, extra="ignore")

    description: _Line
    words: frozenset[str]
    number_words: frozenset[str] = frozenset()
    examples: tuple[_Line, ...] = ()

    @property
    def summary(self) -> str:
        """A sentence for people, to follow "the model knows"."""
        return f"{len(self.words):,} {self.description}; other words it has not learned"

    def info(self) -> dict[str, str]:
        """The same for a list of facts, with the examples."""
        facts = {"knows": self.summary}
        if self.examples:
            facts["for example"] = "  ".join(self.examples)
        return facts

    def unknown_in(self, text: str) -> list[str]:
        """The unknown words of a text, each once, in order.

        Args:
            text: a sentence, or any other text.
        """
        words = {word: None for word, part in parts(text) if not self._has(part)}
        return list(words)

    def _has(self, part: str) -> bool:
        """Whether a part of a word, without hyphens, is known."""
        if self._has_whole(part):
            return True
        pieces = part.split(_APOSTROPHE)
        first, last = 0, len(pieces) - 1
        while first < last and self._has_whole(pieces[first] + _APOSTROPHE):
            first += 1
        while first < last and _APOSTROPHE + pieces[last] in self.words:
            last -= 1
        return first == last and self._has_whole(pieces[first])

    def _has_whole(self, part: str) -> bool:
        spellings = (part, part[:1].swapcase() + part[1:])
        return any(one in self.words or self.is_number(one) for one in spellings)

    def is_number(self, word: str) -> bool:
        """Whether a word is one of `number_words`, or several strung together."""
        sizes = {len(part) for part in self.number_words}
        ends = {0}
        for start in range(len(word)):
            if start in ends:
                ends.remove(start)
                ends |= {
                    start + size
                    for size in sizes
                    if word[start : start + size] in self.number_words
                }
            if not ends:
                return False
        return len(word) in ends

    def to_json(self) -> str:
        """The content of the file, one word a line."""
        content = {
            "description": self.description,
            "examples": self.examples,
            "number_words": sorted(self.number_words),
            "words": sorted(self.words),
        }
        return json.dumps(content, indent=0, ensure_ascii=False) + "\n"

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Reads the file of a folder from an untrusted source.

        Args:
            folder: the folder of `known_words.json`.

        Raises:
            InputError: where it is missing, damaged, too large or not a regular file of
                the folder.
        """
        path = plain_file(folder, KNOWN_WORDS, MOST_CONFIG_BYTES)
        try:
            return cls.model_validate_json(path.read_bytes())
        except OSError as error:
            raise InputError(
                f"cannot read {path} ({error.strerror}), which its config names; copy "
                f"the folder again"
            ) from None
        except pydantic.ValidationError:
            raise InputError(
                f"{path} is damaged or not a list of known words; copy the folder again"
            ) from None


def parts(text: str) -> Iterator[tuple[str, str]]:
    """Each word of a text, with each of its parts between hyphens.

    Tokens with digits, capitals beside digits and single letters are not words.

    Args:
        text: any.

    Example:

    >>> list(parts("A 3-day check-in, H-6414, 9:30!"))
    [('3-day', 'day'), ('check-in', 'check'), ('check-in', 'in')]
    """
    text = unicodedata.normalize("NFC", text).translate(_CHARACTERS)
    for token in text.split():
        word = token.strip(_APOSTROPHE + _HYPHEN)
        if len(word) == 1 and word.lower() != word.upper():
            continue
        has_digits = any(map(_is_digit, word))
        for piece in word.split(_HYPHEN):
            part = piece.strip(_APOSTROPHE)
            is_code = has_digits and (part.isupper() or any(map(_is_digit, part)))
            if any(map(str.isalpha, part)) and not is_code:
                yield word, part


def _is_digit(character: str) -> bool:
    return character.isnumeric() and not character.isalpha()
