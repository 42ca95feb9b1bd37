"""Progress and warnings of a command that translates, on standard error."""

import contextlib
import os
import stat
import sys
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING
from typing import BinaryIO

from keras_transformer.control_characters import escaped

if TYPE_CHECKING:
    from keras_transformer.data.known_words import KnownWords
    from keras_transformer.translation.hypothesis import Hypothesis


_MOST_NAMED = 3


@contextlib.contextmanager
def bar(file: BinaryIO, output: Path | None) -> Iterator[Callable[[int], None]]:
    """A progress bar: yields a function that counts finished lines.

    It is drawn only on a terminal that does not also show the input or output lines.

    Args:
        file: the input; for a regular file the bar shows the share that is read.
        output: the output; None is standard output.
    """
    shown = output is None and sys.stdout is not None and sys.stdout.isatty()
    terminal = sys.stderr is not None and sys.stderr.isatty()
    if not terminal or shown or file.isatty():
        yield lambda count: None
        return
    from rich.console import Console
    from rich.progress import BarColumn
    from rich.progress import Progress
    from rich.progress import TextColumn
    from rich.progress import TimeElapsedColumn

    status = os.fstat(file.fileno())
    size = status.st_size if stat.S_ISREG(status.st_mode) else None
    columns = BarColumn(), TextColumn("{task.fields[lines]} lines"), TimeElapsedColumn()
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        task = progress.add_task("", total=size, lines=0)
        lines = 0

        def advance(count: int) -> None:
            nonlocal lines
            lines += count
            bytes_read = file.tell() if size is not None else None
            progress.update(task, completed=bytes_read, lines=lines)

        yield advance


def say(text: str) -> None:
    """Prints a line to standard error; ignores a closed stream."""
    with contextlib.suppress(OSError, ValueError):
        print(escaped(text), file=sys.stderr, flush=True)


@contextlib.contextmanager
def warnings_reported() -> Iterator[None]:
    """Prints each warning that is raised within it as one line."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", UserWarning)
        try:
            yield
        finally:
            for warning in caught:
                print(escaped(f"warning: {warning.message}"), file=sys.stderr)


def warn_of_cuts(translations: "list[list[Hypothesis]]", first_line: int) -> None:
    """Warns of translations that were cut off at the length limit."""
    for number, hypotheses in enumerate(translations, first_line):
        if not hypotheses[0].finished:
            print(
                f"warning: line {number}: the translation reached its length limit "
                f"and may be cut off, after {len(hypotheses[0].ids)} tokens",
                file=sys.stderr,
            )


class UnknownWords:
    """Collector of input words that the model has not learned, line by line.

    `report` counts the lines that have some.

    Args:
        known: the words of the model; None where they are not known.
    """

    def __init__(self, known: "KnownWords | None") -> None:
        self._known = known
        self._num_lines = 0
        self._first: dict[str, None] = {}

    def of(self, lines: list[str]) -> list[list[str] | None]:
        """The unknown words of each line; None without the words of the model."""
        if self._known is None:
            return [None] * len(lines)
        words_of_lines = [self._known.unknown_in(line) for line in lines]
        self._num_lines += sum(map(bool, words_of_lines))
        for words in words_of_lines:
            if len(self._first) < _MOST_NAMED:
                self._first |= dict.fromkeys(words)
        return list(words_of_lines)

    def report(self, *, named: bool) -> None:
        """Prints one warning for all lines, if any has unknown words.

        Args:
            named: whether the output lists the words of each line.
        """
        if not self._num_lines:
            return
        number = self._num_lines
        count = "1 line has" if number == 1 else f"{number} lines have"
        words = ", ".join(map(repr, list(self._first)[:_MOST_NAMED]))
        advice = "" if named else "; --format jsonl lists them for each line"
        text = (
            f"warning: {count} words that the model has not learned, such as "
            f"{words}: their translations are guesses{advice}"
        )
        print(escaped(text), file=sys.stderr)
