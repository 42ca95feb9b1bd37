"""Tokens of a sentence in readable form, and the words that they belong to."""

import dataclasses
import functools
from collections.abc import Sequence

from keras_transformer.config import TranslationConfig
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.translation.alignment import piece_bytes
from keras_transformer.translation.alignment import word_numbers

START, END = "<s>", "</s>"
_LABELS = {START: "⟨start⟩", END: "⟨end⟩"}


@dataclasses.dataclass(frozen=True)
class Tokens:
    """The tokens along one axis of attention weights.

    Args:
        pieces: the tokenizer's spelling, `▁` for a space; `<s>` and `</s>` for start
            and end.

    Example:

    >>> tokens = Tokens(("A", "▁li", "on", "▁", "</s>"))
    >>> tokens.labels
    ['A', 'li', 'on', '␣', '⟨end⟩']
    >>> tokens.words, tokens.numbers
    (['A', 'lion'], [0, 1, 1, None, None])
    """

    pieces: tuple[str, ...]

    @classmethod
    def of(
        cls, tokenizer: Tokenizer, ids: Sequence[int], config: TranslationConfig
    ) -> "Tokens":
        """The tokens of ids, with one spelling of start and end for all tokenizers."""
        special = {config.start_id: START, config.end_id: END}
        pieces = zip(ids, tokenizer.spelled(ids), strict=True)
        return cls(tuple(special.get(token, piece) for token, piece in pieces))

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def labels(self) -> list[str]:
        """The readable pieces: without the mark of a space, unless it is all."""
        return [_LABELS.get(piece) or _text(piece) or "␣" for piece in self.pieces]

    @functools.cached_property
    def numbers(self) -> list[int | None]:
        """The word that each piece belongs to, from 0; None for space, start and end.

        Words are separated by white space.
        """
        texts = [piece for piece in self.pieces if piece not in _LABELS]
        following = iter(word_numbers(texts))
        return [None if piece in _LABELS else next(following) for piece in self.pieces]

    @functools.cached_property
    def words(self) -> list[str]:
        """The text of each word."""
        parts: dict[int, bytes] = {}
        for piece, number in zip(self.pieces, self.numbers, strict=True):
            if number is not None:
                parts[number] = parts.get(number, b"") + piece_bytes(piece)
        count = max(parts, default=-1) + 1
        texts = [parts.get(number, b"") for number in range(count)]
        return [text.decode(errors="replace").strip() for text in texts]


def _text(piece: str) -> str:
    """A word without surrounding space; an invalid byte keeps its spelling."""
    try:
        return piece_bytes(piece).decode().strip()
    except UnicodeDecodeError:
        return piece
