"""Options that a model may have and a command may take away, with the word none."""

import functools
from collections.abc import Callable
from typing import Any

import typer

_NONE = "none"

#: Those that have no value by default.
NAMES = {
    "patience",
    "max_length",
    "suppressed_tokens",
    "mbr",
    "mbr_candidates",
    "max_source_length",
}


def parser(name: str, kind: Any) -> Callable[[str], Any] | None:
    """What reads the option, where it is a number or none; None for any other."""
    if name in NAMES and kind in (int, float):
        return functools.partial(_number, kind)
    return None


def _number(kind: type, text: str) -> Any:
    try:
        return text if text == _NONE else kind(text)
    except ValueError:
        raise typer.BadParameter(
            f"{text!r} is neither a valid {kind.__name__} nor none."
        ) from None


def with_unset(given: dict[str, Any]) -> dict[str, Any]:
    """The options with what `DecodingOptions` calls none in place of the word."""
    found = dict(given)
    for name in NAMES & given.keys():
        if given[name] == _NONE:
            found[name] = None
        elif given[name] == [_NONE]:
            found[name] = ()
    return found
