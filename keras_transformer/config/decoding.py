"""Decoding options: all that a search can be asked to do, validated and frozen."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import pydantic

from keras_transformer.config.documented import with_arguments
from keras_transformer.config.faults import first_fault
from keras_transformer.config.faults import suggestion
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.decoding_options import Option
from keras_transformer.decoding_options import OptionTable
from keras_transformer.errors import InputError

#: Overrides that turn any options into plain greedy search.
GREEDY = {
    name: option.default if option.greedy is None else option.greedy
    for name, option in OPTIONS.items()
    if option.is_set_back
}

_N_BEST = 4
_NUM_SAMPLES = 32  # of which MBR chooses


def _is_for(search: str, values: Mapping[str, Any]) -> bool:
    """Whether an option of some kind of search does something in a certain one."""
    if search == "sampling":
        return bool(values["sampling"])
    if search == "several":
        return values["beam_size"] > 1 or values["sampling"]
    return search != "beam" or (values["beam_size"] > 1 and not values["sampling"])


def n_best_size(beam_size: int) -> int:
    """The beam size of an n-best search; a greedy search is widened to a beam."""
    return beam_size if beam_size > 1 else _N_BEST


def _described(schema: dict[str, Any]) -> None:
    """Puts the text of each option into the JSON schema."""
    for name, option in OPTIONS.items():
        schema["properties"][name]["description"] = option.text


def _documented(options: type[DecodingOptions]) -> type[DecodingOptions]:
    """The class, the options in its docstring."""
    rows = map(_documentation, OPTIONS.values())
    options.__doc__ = with_arguments(options.__doc__, rows)
    return options


def _documentation(option: Option) -> str:
    facts = ", ".join(filter(None, [option.bounds, f"default {option.default!r}"]))
    return f"{option.name}: {option.text} ({facts})"


@_documented
class DecodingOptions(pydantic.BaseModel, OptionTable):
    """Decoding options, validated and frozen; the defaults are the paper's.

    Their table is `keras_transformer.decoding_options.OptionTable`.

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
        frozen=True,
        extra="forbid",
        strict=True,
        allow_inf_nan=False,
        json_schema_extra=_described,
    )

    @pydantic.field_validator("suppressed_tokens", mode="before")
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

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
        if self.mbr is not None and self.num_candidates == 1:
            yield (
                f"mbr {self.mbr} has one candidate to choose from; give a larger "
                f"{'mbr_candidates' if self.sampling else 'beam_size'}"
            )
        if self.mbr is None and self.mbr_candidates is not None:
            yield "mbr_candidates needs mbr; set it to chrf or bleu"
        changed, values = self.changed(), self.model_dump()
        for name in changed:
            needed = OPTIONS[name].search
            if not OPTIONS[name].is_set_back or _is_for(needed, values):
                continue
            if needed == "sampling":
                yield f"{name} {changed[name]} needs sampling; turn it on"
            if needed == "beam":
                yield (
                    f"{name} {changed[name]} needs a beam search: a beam_size above 1, "
                    f"without sampling"
                )
        if (self.num_beam_groups > 1) != (self.diversity_penalty > 0):
            yield (
                f"num_beam_groups {self.num_beam_groups} and diversity_penalty "
                f"{self.diversity_penalty} need each other; give both, or neither"
            )
        if self.rules != "default" and self.num_beam_groups > 1:
            yield (
                f"rules {self.rules} have no groups of beams; give num_beam_groups 1 "
                f"and diversity_penalty 0, or rules default"
            )
        if self.beam_size % self.num_beam_groups:
            yield (
                f"num_beam_groups {self.num_beam_groups} does not divide beam_size "
                f"{self.beam_size}; make beam_size a multiple of it"
            )
        if self.max_length is None:
            return
        if self.most_tokens == 0:
            yield "max_length 1 counts only the start token; give a larger one"
        if self.forced_start is not None and self.most_tokens == 1:
            yield (
                f"max_length {self.max_length} leaves no token after the forced_start; "
                f"give a larger one"
            )
        if self.min_length > (self.most_tokens or 1):
            yield (
                f"min_length {self.min_length} is above max_length {self.max_length}; "
                f"give a smaller one"
            )

    @property
    def most_tokens(self) -> int | None:
        """The most tokens that `max_length` allows, the start token not counted."""
        if self.max_length is None or self.rules == "default":
            return self.max_length
        return self.max_length - 1

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

    @classmethod
    def check_each(cls, fields: Mapping[str, Any]) -> None:
        """Refuses unknown options and wrong values, each by itself.

        Whether they go together depends on the others, see `updated`.

        Args:
            fields: by name.

        Raises:
            InputError: naming the first that is wrong.
        """
        for name, value in fields.items():
            if name not in OPTIONS:
                raise InputError(f"unknown option {name}; {suggestion(name, OPTIONS)}")
            if value is None:
                continue
            try:
                cls(**{name: value})
            except pydantic.ValidationError as error:
                if error.errors()[0]["loc"]:
                    raise InputError(first_fault(error, cls, "")) from None

    def updated(self, fields: Mapping[str, Any]) -> DecodingOptions:
        """These options with others in place of some.

        None stands for no change, unless it is a value of the field. Where the others
        ask for a search of another kind, options of these that it lacks (those of beams
        or of samples, and in a greedy search n-best and MBR) have their default.
        """
        fields = {
            name: value
            for name, value in fields.items()
            if value is not None or name not in OPTIONS or OPTIONS[name].default is None
        }
        if not fields:
            return self
        values = {**self.model_dump(), **fields}
        for name in self.changed().keys() - fields.keys() - {"beam_size", "sampling"}:
            option = OPTIONS[name]
            if option.is_set_back and not _is_for(option.search, values):
                values[name] = option.default
        if "max_length" not in fields and values["rules"] == "default":
            values["max_length"] = self.most_tokens  # in the count of these rules
        return DecodingOptions.of(values)

    def with_ids(
        self, ids_of: Callable[[Sequence[str | int]], list[int]]
    ) -> DecodingOptions:
        """These options with ids in place of pieces of the vocabulary.

        Args:
            ids_of: the ids of pieces and ids, such as `Tokenizer.ids_of`.
        """
        fields: dict[str, Any] = {}
        if self.suppressed_tokens:
            ids = ids_of(self.suppressed_tokens)
            fields["suppressed_tokens"] = tuple(sorted(set(ids)))
        if self.forced_start is not None:
            (fields["forced_start"],) = ids_of([self.forced_start])
        return self.updated(fields)

    def changed(self) -> dict[str, Any]:
        """The fields that do not have their default."""
        return self.model_dump(exclude_defaults=True)

    def lacking(self, *, own_search: bool) -> list[str]:
        """The options that differ from their defaults, and that an export has not.

        Args:
            own_search: whether the export searches by the rules of this package.
        """
        held = ("every", "own") if own_search else ("every",)
        return [
            name
            for name in self.changed()
            if OPTIONS[name].exports not in held and not OPTIONS[name].passed_over
        ]
