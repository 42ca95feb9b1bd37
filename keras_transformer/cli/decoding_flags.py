"""The flags of a search: one for each field of `DecodingOptions`."""

import functools
import inspect
from collections.abc import Callable
from collections.abc import Collection
from inspect import Parameter
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import unsetting

_KEYWORD = Parameter.KEYWORD_ONLY

#: Field -> type, how its value is shown, and its help. The default is the model's.
FLAGS: dict[str, tuple[Any, str | None, str]] = {
    "beam_size": (int, "N", "Hypotheses kept; 1 is greedy."),
    "top_beams": (int, "N", "Hypotheses written of each line."),
    "normalization": (str, "gnmt|average|none", "How scores account for lengths."),
    "length_penalty": (float, "A", "Of gnmt: the higher, the longer translations."),
    "coverage_penalty": (float, "B", "Of source tokens that get no attention."),
    "patience": (float, "P|none", "End once P * beam size hypotheses have ended."),
    "min_length": (int, "N", "The fewest tokens of a translation."),
    "max_length": (int, "N|none", "The most; else as many as the line has + 50."),
    "no_repeat_ngram_size": (int, "N", "No sequence of N tokens comes twice."),
    "repetition_penalty": (float, "R", "Above 1: shun tokens that have come already."),
    "suppressed_tokens": (list[str], "PIECE|none", "Never write it. May be repeated."),
    "num_beam_groups": (int, "N", "Groups of beams that shun each other's tokens."),
    "diversity_penalty": (float, "D", "How much they do."),
    "sampling": (bool, None, "Draw tokens at random instead of searching."),
    "temperature": (float, "T", "Of draws: below 1 favours the probable."),
    "top_k": (int, "N", "Draw of the N most probable tokens."),
    "top_p": (float, "P", "Draw of the fewest tokens that hold probability P."),
    "seed": (int, "N", "Of draws."),
    "mbr": (str, "chrf|bleu|none", "Choose what is most like the other candidates."),
    "mbr_candidates": (int, "N|none", "How many; else the beam size, of samples 32."),
    "long_lines": (str, "error|truncate|split", "What happens to lines too long."),
    "max_source_length": (int, "N|none", "Tokens of a line; else all the model takes."),
}

#: Numbers that cannot be 0: counts, and those that `DecodingOptions` checks.
_COUNTS = {"beam_size", "top_beams", "num_beam_groups"}
_CHECKED = {"temperature", "top_p", "repetition_penalty", *unsetting.NAMES}


def with_decoding_flags(
    command: Callable[..., None], without: Collection[str] = ()
) -> Callable[..., None]:
    """A command whose parameter `decoding` holds those of the flags that are given.

    Args:
        command: has a parameter for each of its own arguments, and `decoding`.
        without: fields that it gets no flag for.
    """
    chosen = {name: flag for name, flag in FLAGS.items() if name not in without}

    @functools.wraps(command)
    def run(**arguments: Any) -> None:
        flags = {name: arguments.pop(name) for name in chosen}
        # A flag that may be repeated is an empty list where it is not given.
        given = {n: v for n, v in flags.items() if v is not None and v != []}
        command(**arguments, decoding=unsetting.with_unset(given))

    flags = [_parameter(name, *flag) for name, flag in chosen.items()]
    own = inspect.signature(command).parameters.values()
    own = [p for p in own if p.name != "decoding"]
    run.__signature__ = inspect.Signature([*own, *flags])
    run.__annotations__ = {p.name: p.annotation for p in [*own, *flags]}
    return run


def _parameter(name: str, kind: Any, metavar: str | None, text: str) -> Parameter:
    unbounded = name in _CHECKED or kind not in (int, float)
    least = None if unbounded else int(name in _COUNTS)
    parser = unsetting.parser(name, kind)
    option = typer.Option(metavar=metavar, help=text, min=least, parser=parser)
    annotation = Annotated[kind | None, option]
    return Parameter(name, _KEYWORD, default=None, annotation=annotation)
