"""Words of the input that a model has not learned, where that is known."""

import sys
from typing import TYPE_CHECKING

from keras_transformer.control_characters import escaped

if TYPE_CHECKING:
    from keras_transformer.data.known_words import KnownWords

_MOST_NAMED = 3


class UnknownWords:
    """Finds them line by line, and says in the end how many lines have some.

    Args:
        known: of the model; None finds none.
    """

    def __init__(self, known: "KnownWords | None") -> None:
        self._known = known
        self._num_lines = 0
        self._first: dict[str, None] = {}

    def of(self, lines: list[str]) -> list[list[str] | None]:
        """The unknown words of each line; None where nothing is known of words."""
        if self._known is None:
            return [None] * len(lines)
        found = list(map(self._known.unknown_in, lines))
        self._num_lines += sum(map(bool, found))
        for words in found:
            if len(self._first) < _MOST_NAMED:
                self._first |= dict.fromkeys(words)
        return found

    def report(self, *, named: bool) -> None:
        """One warning of all lines, if there is reason.

        Args:
            named: whether the output names the words of each line.
        """
        if not self._num_lines:
            return
        number = self._num_lines
        count = "1 line has" if number == 1 else f"{number} lines have"
        words = ", ".join(map(repr, list(self._first)[:_MOST_NAMED]))
        advice = "" if named else "; --format jsonl names those of each line"
        text = (
            f"warning: {count} words that the model has not learned, such as {words}: "
            f"what it makes of them is a guess{advice}"
        )
        print(escaped(text), file=sys.stderr)
