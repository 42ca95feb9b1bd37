"""The table of decoding options: what each one is, and what it is for.

All that depends on which options there are is derived from it: the checks of
`DecodingOptions`, keys of configs, flags of the command line, what a greedy search has,
what a compiled search depends on, what an export holds. A new option is an entry here
and its use in the search.

Plain Python: the command line makes its flags without loading more.
"""

# ruff: noqa: RUF009  # `_option` makes a field

import dataclasses
import types
import typing
from collections.abc import Iterator
from typing import Annotated
from typing import Any
from typing import Literal

from annotated_types import Ge
from annotated_types import Gt
from annotated_types import Interval

Beams = Annotated[int, Interval(ge=1, le=1000)]
Count = Annotated[int, Gt(0)]
CountOrZero = Annotated[int, Interval(ge=0, le=2**31 - 1)]  # as int32
# Within these bounds no sum of float32 overflows, and no difference is lost.
Penalty = Annotated[float, Interval(ge=0.0, le=1e6)]
Factor = Annotated[float, Interval(ge=1e-6, le=1e6)]


@dataclasses.dataclass(frozen=True)
class Option:
    """A decoding option and its facts.

    Args:
        name: as a key, and as an argument; its flag has hyphens.
        type: of its values, annotated with their bounds.
        default: where nobody gives it.
        text: what it does, for all documentation. The first sentence is the help of
            its flag.
        letter: stands for its value in that help.
        search: the search that it is for: `"every"`, `"several"` (whatever has more
            than one hypothesis), `"beam"` or `"sampling"`.
        passed_over: whether searches that it is not for pass it over. They refuse it
            otherwise, and a greedy search has its default, or `greedy`.
        greedy: its value in a greedy search; None for the default.
        compiled: whether a compiled search depends on it. Each value makes a program
            of its own then, unless there is a `stand_in`.
        stand_in: stands for all values but the default in the program of a search,
            which has the value as an input.
        exports: which exports have it: `"every"`, `"own"` (those that search by the
            rules of this package), or `"none"`.
    """

    name: str
    type: Any
    default: Any
    text: str
    letter: str = "N"
    search: Literal["every", "several", "beam", "sampling"] = "every"
    passed_over: bool = False
    greedy: Any = None
    compiled: bool = True
    stand_in: float | None = None
    exports: Literal["every", "own", "none"] = "none"

    @property
    def help(self) -> str:
        """The first sentence of the text."""
        return self.text.partition(". ")[0].removesuffix(".") + "."

    @property
    def is_set_back(self) -> bool:
        """Whether a greedy search has a value of its own for it."""
        return self.search != "every" and not self.passed_over

    @property
    def default_flag(self) -> str:
        """What gives the field its default on the command line."""
        flag, value = self.name.replace("_", "-"), self.default
        if isinstance(value, bool):
            return f"--{flag}" if value else f"--no-{flag}"
        if isinstance(value, float):
            value = f"{value:g}"
        return f"--{flag} {'none' if value is None else value}"

    @property
    def has_none(self) -> bool:
        """Whether it can be without a value, which it then is by default."""
        return self.default in (None, ())

    @property
    def bounds(self) -> str:
        """Where its values lie, in words; `""` for anywhere."""
        return ", ".join(filter(None, map(_bound, _annotations(self.type))))

    @property
    def values(self) -> list[Any]:
        """The types and words that a value may be: `int`, `"gnmt"` or None."""
        return list(_values(self.type))


def _option(default: Any, text: str, **facts: Any) -> Any:
    """A field of the table; `facts` are those of `Option`."""
    return dataclasses.field(default=default, metadata={"text": text, **facts})


@dataclasses.dataclass(kw_only=True, eq=False)
class OptionTable:
    """The options, each a field; `DecodingOptions` is the same, checked and frozen."""

    beam_size: Beams = _option(
        4,
        "Hypotheses kept by beam search; 1 is greedy search.",
        search="several",
        greedy=1,
        exports="every",
    )
    top_beams: Beams = _option(
        1,
        "Hypotheses returned for each line (n-best). They are the best of a beam "
        "search, or as many samples, in the order in which they were drawn.",
        search="several",
        exports="every",
    )
    normalization: Literal["gnmt", "power", "average", "none"] = _option(
        "gnmt",
        "How scores account for lengths. The log-probability of a hypothesis is "
        'divided by ((5 + length) / 6)^length_penalty ("gnmt"), by '
        'length^length_penalty ("power"), by its length ("average", which is "power" '
        'with a length_penalty of 1) or by nothing ("none", which is "power" with 0), '
        "to give its score. Lengths count the end token and a forced_start, and not "
        "the start token. The length_penalty of transformers and CTranslate2, lenpen "
        'of fairseq and normalize of Marian are that of "power".',
        search="several",
        passed_over=True,
        exports="every",
    )
    length_penalty: Annotated[float, Interval(ge=0.0, le=10.0)] = _option(
        0.6,
        "Length penalty alpha of gnmt and power: the higher, the longer translations.",
        letter="A",
        search="several",
        passed_over=True,
        stand_in=1.0,
        exports="every",
    )
    coverage_penalty: Penalty = _option(
        0.0,
        "Beta: how much a score loses for source tokens that no target token attends "
        "to.",
        letter="B",
        search="beam",
        stand_in=1.0,
        exports="own",
    )
    patience: Factor | None = _option(
        None,
        "End once P * beam size hypotheses have ended. Each of them was among the best "
        "beam_size continuations of its step. None goes on until nothing better can "
        "come, which is never worse.",
        letter="P",
        search="beam",
        stand_in=1.0,
        exports="every",
    )
    rules: Literal["default", "transformers", "transformers_heuristic"] = _option(
        "default",
        "Whose rules a beam search follows. Those of the library transformers are "
        "there for comparison: an end counts only among the best beam_size "
        "continuations, at the limit the same holds for what has not ended, and "
        'max_length counts the start token. Of its early_stopping, "never" is '
        '"transformers", True is that with a patience of 1, and False, which it has by '
        'default, is "transformers_heuristic": a row ends as if what is alive could '
        'only end now. The best score of "default" is at least theirs.',
        search="beam",
    )
    min_length: CountOrZero = _option(
        0,
        "The fewest tokens of a translation, its end included.",
        stand_in=2,
        exports="every",
    )
    max_length: Count | None = _option(
        None,
        "The most tokens of a translation, its end included; else as many as the "
        "source has and 50 more.",
        compiled=False,
        exports="every",
    )
    no_repeat_ngram_size: CountOrZero = _option(
        0, "No sequence of N tokens comes twice; 0 for any.", exports="every"
    )
    repetition_penalty: Factor = _option(
        1.0,
        "Above 1: shun tokens that have come already. The logit of such a token is "
        "divided by it, or where it is negative multiplied; 1 changes nothing.",
        letter="R",
        stand_in=2.0,
        exports="every",
    )
    suppressed_tokens: tuple[str | int, ...] = _option(
        (),
        "Pieces of the vocabulary, or their ids, that never come. They keep their "
        "share of probability.",
        letter="PIECE",
        exports="every",
    )
    forced_start: str | Annotated[int, Ge(0)] | None = _option(
        None,
        "A piece of the vocabulary, or its id, that every translation begins with. Its "
        "log-probability counts as 0, it counts in the length, no other rule forbids "
        "it, and the text is without it. Models of many languages have the code of the "
        "language here.",
        letter="PIECE",
        compiled=False,
        exports="every",
    )
    forced_end: bool = _option(
        False,
        "End what reaches its limit. The end is its last token then, and its "
        "log-probability counts as 0.",
        exports="every",
    )
    num_beam_groups: Count = _option(
        1,
        "Groups of beams that shun each other's tokens. They are searched one after "
        "the other, each shunning what those before it take at the same step.",
        search="beam",
        exports="own",
    )
    diversity_penalty: Penalty = _option(
        0.0,
        "How much a group shuns a token for each time that another has taken it.",
        letter="D",
        search="beam",
        stand_in=1.0,
        exports="own",
    )
    sampling: bool = _option(
        False,
        "Draw tokens at random, with their probabilities, instead of searching.",
        search="several",
    )
    temperature: Factor = _option(
        1.0,
        "Divides log-probabilities before a draw; below 1 favours the probable.",
        letter="T",
        search="sampling",
        stand_in=2.0,
    )
    top_k: CountOrZero = _option(
        0, "Draw of the N most probable tokens; 0 of all.", search="sampling"
    )
    top_p: Annotated[float, Interval(ge=1e-6, le=1.0)] = _option(
        1.0,
        "Draw of the fewest tokens whose probabilities add up to P; 1 of all.",
        letter="P",
        search="sampling",
        stand_in=0.5,
    )
    seed: Annotated[int, Ge(0)] = _option(
        0,
        "The random seed of the draws. A line's samples depend on it and on the line's "
        "number, not on the lines around it.",
        search="sampling",
        passed_over=True,
        compiled=False,
    )
    mbr: Literal["chrf", "bleu"] | None = _option(
        None,
        "Choose what is most like the other candidates (minimum Bayes risk), by chrF "
        "or BLEU, instead of the most probable.",
        search="several",
        compiled=False,
    )
    mbr_candidates: Beams | None = _option(
        None,
        "How many candidates; else the beam size, of samples 32.",
        search="several",
        compiled=False,
    )
    long_lines: Literal["error", "truncate", "split"] = _option(
        "error",
        'What happens to a line of more than max_source_length tokens. "error" '
        'refuses it, "truncate" cuts it with a warning, "split" translates its '
        "sentences, if necessary windows of them, and joins the translations.",
        compiled=False,
        exports="every",
    )
    max_source_length: Annotated[int, Ge(2)] | None = _option(
        None,
        "The most tokens of a line, its end included; else what the model takes.",
        compiled=False,
        exports="every",
    )


def options_of(table: type[OptionTable]) -> dict[str, Option]:
    """The options of a table by name, in its order."""
    return {
        field.name: Option(field.name, field.type, field.default, **field.metadata)
        for field in dataclasses.fields(table)
    }


OPTIONS = options_of(OptionTable)


def _values(annotation: Any) -> Iterator[Any]:
    origin, parts = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is Annotated:
        yield from _values(parts[0])
    elif origin in (typing.Union, types.UnionType):
        for part in parts:
            yield from _values(part)
    elif origin is Literal:
        yield from parts
    else:
        yield None if annotation is types.NoneType else annotation


def _annotations(annotation: Any) -> Iterator[Any]:
    if typing.get_origin(annotation) is Annotated:
        yield from annotation.__metadata__
    for part in typing.get_args(annotation):
        yield from _annotations(part)


def _bound(bound: Any) -> str:
    if isinstance(bound, Interval):
        return f"from {_number(bound.ge)} to {_number(bound.le)}"
    if isinstance(bound, Ge):
        return f"at least {_number(bound.ge)}"
    if isinstance(bound, Gt):
        return f"above {_number(bound.gt)}"
    return ""


def _number(value: Any) -> str:
    if isinstance(value, int):
        return str(value)
    return f"{value:f}".rstrip("0").rstrip(".")
