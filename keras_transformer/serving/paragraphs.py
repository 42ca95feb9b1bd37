"""Texts of several sentences: split before a translation, and joined behind it."""

import re
from collections.abc import Sequence
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import regrouped
from keras_transformer.translation.sentence_splitting import join_sentences
from keras_transformer.translation.sentence_splitting import split_sentences


class Paragraphs:
    """The sentences of some texts.

    Args:
        texts: any texts.
        language: the code of their language, where it is known.
        limits: the limits of the server.

    Raises:
        InputError: where there are too many sentences, one is too long, or the library
            that splits is not installed.
    """

    def __init__(
        self, texts: Sequence[str], language: str | None, limits: Limits
    ) -> None:
        self._parts = [split_sentences(text, language) for text in texts]
        rows = list(enumerate(self._parts, 1))
        #: The sentences of all texts, in order; without those of white space.
        self.sentences = [part.text for row in self._parts for part in row if part.text]
        self._places = [
            f"line {row}" + (f", sentence {number}" if len(parts) > 1 else "")
            for row, parts in rows
            for number, part in enumerate((part for part in parts if part.text), 1)
        ]
        count = len(self.sentences)
        if count > limits.sentences:
            raise InputError(
                f"the text has {count} sentences, more than the {limits.sentences} of "
                f"one request; send several requests"
            )
        for place, sentence in zip(self._places, self.sentences, strict=True):
            if len(sentence) > limits.characters:
                raise InputError(
                    f"{place} has {len(sentence)} characters, more than the "
                    f"{limits.characters} of one sentence; split it"
                )

    def renumbered(self, error: InputError) -> InputError:
        """An error that names a sentence by its number, with the place in its text."""

        def place(match: re.Match[str]) -> str:
            return self._places[int(match[1]) - 1]

        return InputError(re.sub(r"^line (\d+)", place, str(error)))

    def of_texts(self, items: Sequence[Any]) -> list[list[Any]]:
        """What belongs to each sentence, such as its hypotheses, grouped by text."""
        rows = [[part for part in parts if part.text] for parts in self._parts]
        return regrouped(items, rows)

    def joined(self, found: Sequence[list[Hypothesis]], rank: int = 0) -> list[str]:
        """The translation of each text, from the hypotheses of its sentences.

        Args:
            found: the hypotheses of each sentence.
            rank: of the hypotheses, from 0; a sentence that has fewer gives its last.
        """
        following = iter(found)
        texts = []
        for parts in self._parts:
            translations = [
                _text(next(following), rank) if part.text else "" for part in parts
            ]
            texts.append(join_sentences(translations, parts))
        return texts


def _text(hypotheses: list[Hypothesis], rank: int) -> str:
    return hypotheses[min(rank, len(hypotheses) - 1)].text
