"""Engine protocol: the interface of models to the server, per kind of folder.

T target positions, S source positions.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from keras_transformer.config.about import About
from keras_transformer.config.languages import Languages
from keras_transformer.data.known_words import KnownWords
from keras_transformer.translation.hypothesis import Hypothesis


class Options(NamedTuple):
    """Options of a translation; sentences of one batch share them."""

    beam_size: int
    n_best: int = 1
    attention: bool = False


#: The codes of the source and of the target; None for the model's.
Codes = tuple[str | None, str | None]


class Engine(Protocol):
    """A model that translates; called by one thread at a time.

    `beam_size` is the width of its search, the largest that `Options` may request; for
    greedy search they may request `n_best_size` hypotheses too. `source_around` are the
    numbers of `source_tokens` before and after those of the text: a language and the
    end token, to which nothing is aligned. `known_words` are all words
    that the model has learned, or None where not known. `languages` are those of a
    multilingual model; the others get no codes. `about` is what its folder tells.
    """

    beam_size: int
    source_around: tuple[int, int]
    known_words: KnownWords | None
    languages: Languages | None
    about: About

    def is_empty(self, text: str) -> bool:
        """Whether a text has nothing to translate; callable from any thread."""

    def count_tokens(
        self, texts: Sequence[str], codes: Codes = (None, None)
    ) -> list[int]:
        """Numbers of source tokens of sentences; callable from any thread.

        Raises:
            InputError: where one is too long for the model, "line N" being its number.
        """

    def translate(
        self,
        texts: Sequence[str],
        options: Options,
        codes: Sequence[Codes] | None = None,
    ) -> list[list[Hypothesis]]:
        """At most `n_best` hypotheses of each sentence, best first.

        `codes` are the languages of each sentence, for a multilingual model.

        With `attention`, each has `source_tokens` and `attention["cross"]`
        (layers, heads, T, S).

        Raises:
            InputError: where `attention` is requested and the model has none.
            ModelError: where the model fails.
        """

    def warm_up(self, longest: int) -> Iterator[str]:
        """Compiles what requests of up to `longest` tokens need; names each step."""

    def info(self) -> dict[str, str | int | float]:
        """Facts about the model, for people; `attention`: whether it has any."""
