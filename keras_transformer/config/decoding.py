"""All that a search can be asked to do, as one validated and frozen object."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.config.faults import first_fault
from keras_transformer.errors import InputError

Count = pydantic.PositiveInt
Beams = Annotated[int, pydantic.Field(ge=1, le=1000)]
# Within these bounds no sum of float32 overflows, and no difference is lost.
Penalty = Annotated[float, pydantic.Field(ge=0.0, le=1e6)]
Factor = Annotated[float, pydantic.Field(ge=1e-6, le=1e6)]

#: Changes that make of any options a plain greedy search.
GREEDY = {
    "beam_size": 1,
    "top_beams": 1,
    "coverage_penalty": 0.0,
    "patience": None,
    "num_beam_groups": 1,
    "diversity_penalty": 0.0,
    "sampling": False,
    "temperature": 1.0,
    "top_k": 0,
    "top_p": 1.0,
    "mbr": None,
    "mbr_candidates": None,
}

_N_BEST = 4
_NUM_SAMPLES = 32  # of which MBR chooses
_BEAM_SEARCH = ("coverage_penalty", "patience", "num_beam_groups")
_SAMPLING = ("temperature", "top_k", "top_p")


def n_best_size(beam_size: int) -> int:
    """W and R where several hypotheses are wanted: greedy search has no others."""
    return beam_size if beam_size > 1 else _N_BEST


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class DecodingOptions(pydantic.BaseModel):
    """How translations are searched for; the defaults are the paper's.

    Penalties are at most a million; patience, temperature and repetition penalty lie
    between a millionth and a million.

    Args:
        beam_size: W, hypotheses kept; 1 is greedy search.
        top_beams: R, hypotheses given back: the best of a beam search, or as many
            samples, in the order in which they were drawn.
        normalization: what the log-probability of a hypothesis is divided by, to give
            its score: `"gnmt"` ((5 + length) / 6)^length_penalty, `"average"` its
            length, `"none"` nothing. Lengths count the end token.
        length_penalty: alpha of `"gnmt"`, at most 10.
        coverage_penalty: beta: how much a score loses for source tokens that no target
            token attends to. Of beam search.
        patience: ends a beam search once patience * beam_size hypotheses have ended,
            each among the best beam_size continuations of its step; None goes on until
            nothing better can come, which is never worse.
        min_length: the fewest tokens, end token included.
        max_length: the most tokens, end token included; None for as many as the source
            has and 50 more.
        no_repeat_ngram_size: no sequence of so many tokens comes twice; 0 for any.
        repetition_penalty: what the logit of a token that has come already is divided
            by, where it is negative multiplied; 1 changes nothing.
        suppressed_tokens: pieces of the vocabulary, or their ids, that never come. They
            keep their share of probability.
        num_beam_groups: groups of beams that are searched one after the other, each
            shunning the tokens that the ones before it take at the same step.
        diversity_penalty: how much, for each time that one of them has taken a token.
        sampling: draw tokens at random, with their probabilities.
        temperature: divides log-probabilities before a draw; below 1 favours the
            probable.
        top_k: draw of the so many most probable tokens; 0 of all.
        top_p: draw of the fewest tokens whose probabilities add up to it; 1 of all.
        seed: of the draws. A line's samples depend on it and on the line's number, not
            on the lines around it.
        mbr: choose the translation that is most like the other candidates, by `"chrf"`
            or `"bleu"`, instead of the most probable.
        mbr_candidates: how many; default: beam_size, of samples 32.
        long_lines: what happens to a line of more tokens than `max_source_length`:
            `"error"`, `"truncate"` it with a warning, or `"split"` it into sentences,
            if necessary into windows, whose translations are joined.
        max_source_length: end token included; None for what the model takes.

    Raises:
        InputError: from `of` and `updated`, for values that do not go together too.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer.decoding import DecodingOptions
    >>> options = DecodingOptions(beam_size=6, no_repeat_ngram_size=3)
    >>> options.updated({"top_beams": 2}).top_beams
    2

    Reference: Wu et al., 2016, https://arxiv.org/abs/1609.08144, section 7 (scores);
    Kasai et al., 2022, https://arxiv.org/abs/2204.05424 (patience); Keskar et al.,
    2019, https://arxiv.org/abs/1909.05858, section 4.1 (repetition penalty);
    Vijayakumar et al., 2016, https://arxiv.org/abs/1610.02424 (groups); Holtzman et
    al., 2020, https://arxiv.org/abs/1904.09751 (top-p); Eikema and Aziz, 2020,
    https://arxiv.org/abs/2005.10283 (MBR).
    """

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )

    beam_size: Beams = 4
    top_beams: Beams = 1
    normalization: Literal["gnmt", "average", "none"] = "gnmt"
    length_penalty: Annotated[float, pydantic.Field(ge=0.0, le=10.0)] = 0.6
    coverage_penalty: Penalty = 0.0
    patience: Factor | None = None
    min_length: pydantic.NonNegativeInt = 0
    max_length: Count | None = None
    no_repeat_ngram_size: pydantic.NonNegativeInt = 0
    repetition_penalty: Factor = 1.0
    suppressed_tokens: Annotated[
        tuple[str | int, ...], pydantic.BeforeValidator(_as_tuple)
    ] = ()
    num_beam_groups: Count = 1
    diversity_penalty: Penalty = 0.0
    sampling: bool = False
    temperature: Factor = 1.0
    top_k: pydantic.NonNegativeInt = 0
    top_p: Annotated[float, pydantic.Field(ge=1e-6, le=1.0)] = 1.0
    seed: pydantic.NonNegativeInt = 0
    mbr: Literal["chrf", "bleu"] | None = None
    mbr_candidates: Beams | None = None
    long_lines: Literal["error", "truncate", "split"] = "error"
    max_source_length: Annotated[int, pydantic.Field(ge=2)] | None = None

    @pydantic.model_validator(mode="after")
    def _check(self) -> DecodingOptions:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        """Why the values do not go together."""
        if not self.sampling and self.num_candidates > self.beam_size:
            name = "top_beams" if self.mbr_candidates is None else "mbr_candidates"
            yield (
                f"{name} {self.num_candidates} must be between 1 and beam_size "
                f"{self.beam_size}; give a larger beam_size"
            )
        if self.top_beams > self.num_candidates:
            yield (
                f"top_beams {self.top_beams} is more than the mbr_candidates "
                f"{self.num_candidates} they are chosen from; give more candidates"
            )
        if self.mbr is None and self.mbr_candidates is not None:
            yield "mbr_candidates needs mbr; set it to chrf or bleu"
        changed = self.changed()
        for name in [n for n in _SAMPLING if n in changed and not self.sampling]:
            yield f"{name} {changed[name]} needs sampling; turn it on"
        greedy = self.sampling or self.beam_size == 1
        for name in [n for n in _BEAM_SEARCH if n in changed and greedy]:
            yield (
                f"{name} {changed[name]} needs a beam search: a beam_size above 1, "
                f"without sampling"
            )
        if (self.num_beam_groups > 1) != (self.diversity_penalty > 0):
            yield (
                f"num_beam_groups {self.num_beam_groups} and diversity_penalty "
                f"{self.diversity_penalty} need each other; give both, or neither"
            )
        if self.beam_size % self.num_beam_groups:
            yield (
                f"num_beam_groups {self.num_beam_groups} does not divide beam_size "
                f"{self.beam_size}; make beam_size a multiple of it"
            )
        if self.max_length is not None and self.min_length > self.max_length:
            yield (
                f"min_length {self.min_length} is above max_length {self.max_length}; "
                f"give a smaller one"
            )

    @property
    def num_candidates(self) -> int:
        """How many hypotheses the search gives, of which `top_beams` are returned."""
        if self.mbr is None:
            return self.top_beams
        default = _NUM_SAMPLES if self.sampling else self.beam_size
        return self.mbr_candidates or max(default, self.top_beams)

    @classmethod
    def of(cls, fields: Mapping[str, Any], where: str = "") -> DecodingOptions:
        """Like the constructor, with one clear sentence where a field is wrong.

        Args:
            fields: by name.
            where: what the message begins with.
        """
        try:
            return cls(**fields)
        except pydantic.ValidationError as error:
            raise InputError(first_fault(error, cls, where)) from None

    def updated(self, fields: Mapping[str, Any]) -> DecodingOptions:
        """These options with others in place of some.

        None stands for no change, unless it is a value of the field.
        """
        defaults = DecodingOptions.model_fields
        fields = {
            name: value
            for name, value in fields.items()
            if value is not None
            or (name in defaults and defaults[name].default is None)
        }
        return DecodingOptions.of({**self.model_dump(), **fields}) if fields else self

    def changed(self) -> dict[str, Any]:
        """The fields that do not have their default."""
        return self.model_dump(exclude_defaults=True)
