"""Checks of arguments, the same for every caller. Needs no Keras."""

from collections.abc import Collection
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from collections.abc import Set
from numbers import Integral

from keras_transformer.errors import InputError


def check_texts(**columns: Sequence[str]) -> None:
    """Refuses what is no list of strings, and lists of unequal lengths.

    Raises:
        InputError: naming the list, and the item in it.
    """
    for name, texts in columns.items():
        if isinstance(texts, str | bytes | Mapping | Set) or not isinstance(
            texts, Collection
        ):
            raise InputError(
                f"{name} must be a list of strings, got {type(texts).__name__}"
            )
        for index, text in enumerate(texts):
            if not isinstance(text, str):
                raise InputError(
                    f"{name} must be a list of strings, but {name}[{index}] is "
                    f"{type(text).__name__}"
                )
    (first, count), *others = ((name, len(texts)) for name, texts in columns.items())
    for name, number in others:
        if number != count:
            raise InputError(
                f"{count} {first} do not pair with {number} {name}; give one for each "
                f"line"
            )


def check_counts(**numbers: int) -> None:
    """Refuses what is no whole number above 0.

    Raises:
        InputError: naming the argument.
    """
    for name, number in numbers.items():
        whole = isinstance(number, Integral) and not isinstance(number, bool)
        if not whole or number < 1:
            raise InputError(f"{name} must be a whole number above 0, got {number!r}")


def check_lengths(
    counts: Iterable[int],
    longest: int,
    *,
    first_line: int = 1,
    where: str = "",
    advice: str = "split it into sentences",
) -> None:
    """Refuses lines of more than `longest` tokens.

    Args:
        counts: the tokens of each line.
        longest: the most tokens.
        first_line: the number of the first line.
        where: the tokens are in the line, as the message says it.
        advice: how to mend it.

    Raises:
        InputError: naming the first line that has more.
    """
    for number, count in enumerate(counts, first_line):
        if count > longest:
            raise InputError(
                f"line {number} has {count} tokens{where}, but the model takes at "
                f"most {longest}; {advice}"
            )
