"""Engines: what a server needs of a model, one for each kind of model folder.

T target positions, S source positions.
"""

from collections.abc import Iterator
from collections.abc import Sequence
from typing import NamedTuple
from typing import Protocol

from keras_transformer.data.known_words import KnownWords
from keras_transformer.translation.hypothesis import Hypothesis


class Options(NamedTuple):
    """How sentences are translated; those of one batch share them."""

    beam_size: int
    n_best: int = 1
    attention: bool = False


class Engine(Protocol):
    """A model that translates; one thread at a time calls it.

    `beam_size` is the width of its search, the largest that `Options` may ask for; of
    a greedy one they may ask for `n_best_size` hypotheses too. `source_end` says
    whether the last of `source_tokens` is the end token, however it is spelled.
    `known_words` are all that the model has learned, where that is known.
    """

    beam_size: int
    source_end: bool
    known_words: KnownWords | None

    def is_empty(self, text: str) -> bool:
        """Whether nothing of a text is left to translate; any thread may call this."""

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Source tokens of each sentence; any thread may call this.

        Raises:
            InputError: where one is too long for the model, "line N" being its number.
        """

    def translate(
        self, texts: Sequence[str], options: Options
    ) -> list[list[Hypothesis]]:
        """At most `n_best` hypotheses of each sentence, best first.

        With `attention`, each has `source_tokens` and `attention["cross"]`
        (layers, heads, T, S).

        Raises:
            InputError: `attention` is asked for and the model has none.
            ModelError: the model is at fault.
        """

    def warm_up(self, longest: int) -> Iterator[str]:
        """Compiles what requests of up to `longest` tokens need; names each step."""

    def info(self) -> dict[str, str | int | float]:
        """What a person would ask about it; `attention`: whether it has any."""
