"""Languages of a multilingual model: their codes, and where their ids stand.

A model folder has them as the section `languages` of its `config.json`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.config.documented import Documented
from keras_transformer.config.faults import validated
from keras_transformer.config.near_codes import near_codes
from keras_transformer.config.translation import TranslationConfig
from keras_transformer.errors import InputError

_MOST_NAMED = 12  # codes in a message
_LONGEST = 100  # characters of a code
_ANY = "*"  # source language, of a prefix

Code = Annotated[str, pydantic.Field(min_length=1, max_length=_LONGEST)]
Id = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
Part = Literal["source", "target", "text", "end"]


@dataclasses.dataclass(frozen=True)
class Direction:
    """The ids around the text of a source and of its translation, for two languages.

    That of a model without languages has the end token alone.

    Args:
        source_language: the code of the source; None where nobody has to say it.
        target_language: the code of the target; None in the same way.
        prefix: text in front of the text of the source.
        source_before: ids in front of those of the source.
        source_after: ids behind them, the end token's among them.
        target_before: ids in front of those of the translation.
        target_after: ids behind them, the end token's among them.
        start_id: the first input of the decoder.
        num_beyond: of `target_after`, those behind the end token, which no search
            writes.

    Example:

    >>> from keras_transformer.config.languages import Direction
    >>> Direction(source_before=(3,), source_after=(2,)).source_ids([7, 8])
    [3, 7, 8, 2]
    """

    source_language: str | None = None
    target_language: str | None = None
    prefix: str = ""
    source_before: tuple[int, ...] = ()
    source_after: tuple[int, ...] = ()
    target_before: tuple[int, ...] = ()
    target_after: tuple[int, ...] = ()
    start_id: int = 0
    num_beyond: int = 0

    @property
    def forced_id(self) -> int | None:
        """The first id of every translation, which no search chooses; None for any."""
        return self.target_before[0] if self.target_before else None

    def source_ids(self, ids: Sequence[int]) -> list[int]:
        """The source with what stands around it, from the ids of its text."""
        return [*self.source_before, *ids, *self.source_after]

    def label_ids(self, ids: Sequence[int]) -> list[int]:
        """The labels for training, from the ids of the text of a translation."""
        return [*self.target_before, *ids, *self.target_after]

    def scored_ids(self, ids: Sequence[int]) -> list[int]:
        """The ids of a translation up to its end, as a search would write them."""
        end = len(self.target_after) - self.num_beyond
        return [*self.target_before, *ids, *self.target_after[:end]]

    @property
    def num_around(self) -> int:
        """The most ids around a text, those of its source or of its labels."""
        source = len(self.source_before) + len(self.source_after)
        return max(source, len(self.target_before) + len(self.target_after))

    def forced(self, first_id: str | int | None) -> Direction:
        """The same, with a forced first token where there is none."""
        if first_id is None or self.target_before:
            return self
        return dataclasses.replace(self, target_before=(int(first_id),))

    @property
    def label(self) -> str:
        """The direction as `eng_Latn-deu_Latn`; "" where there are no languages."""
        return "-".join(filter(None, [self.source_language, self.target_language]))


class Languages(Documented):
    """The languages of a multilingual model, and how it is told which to use.

    What depends on the two languages of a text is in its `Direction`.

    Raises:
        InputError: from `of`, `direction` and `check`.
        pydantic.ValidationError: from the constructor, a `ValueError` too.

    Example:

    >>> from keras_transformer.config.languages import Languages
    >>> languages = Languages(
    ...     codes={"eng_Latn": 20, "deu_Latn": 21, "fra_Latn": 22},
    ...     source_layout=("source", "text", "end"),
    ...     target_layout=("target", "text", "end"),
    ... )
    >>> special_ids = {"pad_id": 0, "start_id": 1, "end_id": 2}
    >>> direction = languages.direction(special_ids, "eng_Latn", "deu_Latn")
    >>> direction.source_ids([7, 8]), direction.label_ids([9])
    ([20, 7, 8, 2], [21, 9, 2])
    """

    codes: Annotated[dict[Code, Id | None], pydantic.Field(min_length=1)]
    """Codes of the languages, each with its id in the vocabulary of the source; None
    where no id stands for it."""
    target_codes: dict[Code, Id] | None = None
    """Ids of the codes in the vocabulary of the target, where that is another one; as
    in `codes` if left out."""
    sources: tuple[Code, ...] | None = None
    """Source languages, where not every language is one."""
    targets: tuple[Code, ...] | None = None
    """Target languages, where not every language is one."""
    source: Code | None = None
    """Source language, where nobody says another one."""
    target: Code | None = None
    """Target language, where nobody says another one."""
    source_layout: tuple[Part, ...] = ("text", "end")
    """Layout of the source, from left to right: `"text"` and `"end"`, and the id of the
    language of the source (`"source"`) or of the target (`"target"`)."""
    target_layout: tuple[Part, ...] = ("text", "end")
    """Layout of the labels, in the same way. `"target"` in front makes that id the
    first of every translation: a search does not choose it."""
    decoder_start: Literal["start_id", "target"] = "start_id"
    """Decoder's first input: `"start_id"`, or the id of the target language."""
    prefixes: dict[Code, dict[Code, str]] = pydantic.Field(default_factory=dict)
    """Prefixes of the source's text, by source language (`"*"` for any) and target
    language."""

    @pydantic.field_validator(
        "sources", "targets", "source_layout", "target_layout", mode="before"
    )
    @classmethod
    def _as_tuple(cls, value: Any) -> Any:
        return tuple(value) if isinstance(value, list) else value

    @pydantic.model_validator(mode="after")
    def _check(self) -> Languages:
        for fault in self._faults():
            raise ValueError(fault)
        return self

    def _faults(self) -> Iterator[str]:
        for name in ("source_layout", "target_layout"):
            layout = getattr(self, name)
            if "text" not in layout or len(set(layout)) < len(layout):
                yield f'{name} {list(layout)} must have "text", and no part twice'
        if "source" in self.target_layout:
            yield 'target_layout has "source", which stands in no translation'
        if self.target_layout[:1] not in (("text",), ("target",)):
            yield 'target_layout must begin with "text" or "target"'
        if "end" not in self.target_layout:
            yield 'target_layout lacks "end", by which a translation ends'
        for name in ("sources", "targets"):
            for code in getattr(self, name) or ():
                if code not in self.codes:
                    yield f"{name} has {code!r}, which is not among the codes"
        for name in ("source", "target"):
            code = getattr(self, name)
            if code is not None and code not in self._known(name):
                yield f"{name} {code!r} is not among the {name} languages"
        for code in self._known("source"):
            if "source" in self.source_layout and self.codes[code] is None:
                yield f"codes: {code!r} has no id, but source_layout has its place"
        for code in self._known("target"):
            if "target" in self.source_layout and self.codes[code] is None:
                yield f"codes: {code!r} has no id, but source_layout has its place"
            if self._stands_in_target and self._target_ids.get(code) is None:
                yield f"{code!r} has no id in the target, but target_layout has a place"
        for source, texts in self.prefixes.items():
            for code in [*texts, *([] if source == _ANY else [source])]:
                if code not in self.codes:
                    yield f"prefixes has {code!r}, which is not among the codes"

    @property
    def _stands_in_target(self) -> bool:
        return "target" in self.target_layout or self.decoder_start == "target"

    @property
    def _target_ids(self) -> Mapping[str, int | None]:
        return self.codes if self.target_codes is None else self.target_codes

    @property
    def needs_source(self) -> bool:
        """Whether a translation depends on the code of the source language."""
        return "source" in self.source_layout or bool(self.prefixes.keys() - {_ANY})

    def _known(self, side: str) -> tuple[str, ...]:
        chosen = self.sources if side == "source" else self.targets
        return tuple(self.codes) if chosen is None else chosen

    @property
    def source_languages(self) -> tuple[str, ...]:
        """The codes of the languages that it translates from."""
        return self._known("source")

    @property
    def target_languages(self) -> tuple[str, ...]:
        """The codes of the languages that it translates into."""
        return self._known("target")

    @classmethod
    def of(cls, fields: Any, where: str = "languages") -> Languages:
        """Like the constructor, with one clear sentence where a field is wrong.

        Args:
            fields: by name.
            where: what the message begins with.
        """
        return validated(cls, fields, where)

    def check(self, config: TranslationConfig) -> None:
        """Refuses ids that lie outside of a model's vocabularies.

        Raises:
            InputError: with the first.
        """
        for side, codes in (("source", self.codes), ("target", self._target_ids)):
            if side == "target" and not self._stands_in_target:
                continue
            size = getattr(config, f"{side}_vocabulary_size")
            for code, number in codes.items():
                if number is not None and number >= size:
                    raise InputError(
                        f"languages: {code!r} has the id {number}, but the {side} "
                        f"vocabulary has {size} entries; give the ids of this model"
                    )

    def with_defaults(
        self, source_language: str | None = None, target_language: str | None = None
    ) -> Languages:
        """The same languages, with other defaults where they are given.

        Raises:
            InputError: where a code is not known.
        """
        chosen = {
            side: self._checked(side, code)
            for side, code in (("source", source_language), ("target", target_language))
            if code is not None
        }
        # A source that nothing depends on is not kept where the codes lack it.
        chosen = {s: c for s, c in chosen.items() if c in self._known(s)}
        return self.model_copy(update=chosen) if chosen else self

    def direction(
        self,
        special_ids: Mapping[str, int],
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> Direction:
        """The `Direction` of two languages.

        Args:
            special_ids: `start_id` and `end_id` of the model's config, or of its
                tokenizer.
            source_language: a code; the default if left out.
            target_language: a code; the default if left out.

        Raises:
            InputError: where a code is missing or not known.
        """
        source, target = self.pair(source_language, target_language)
        ids = {
            "source": self.codes.get(source or ""),
            "target": self.codes.get(target or ""),
            "end": special_ids["end_id"],
        }
        target_id = self._target_ids.get(target or "")
        source_before, source_after = _around(self.source_layout, ids)
        target_before, target_after = _around(
            self.target_layout, {**ids, "target": target_id}
        )
        start = target_id if self.decoder_start == "target" else None
        return Direction(
            source,
            target,
            self._prefix(source, target),
            source_before,
            source_after,
            target_before,
            target_after,
            special_ids["start_id"] if start is None else start,
            len(self.target_layout) - 1 - self.target_layout.index("end"),
        )

    def pair(
        self, source_language: str | None = None, target_language: str | None = None
    ) -> tuple[str | None, str | None]:
        """The codes of a direction, the defaults in place of those left out.

        The source is None where nobody has to say it.

        Raises:
            InputError: where a code is missing or not known, or the model does not
                translate from the one into the other.
        """
        source = self._chosen("source", source_language)
        target = self._chosen("target", target_language)
        self._prefix(source, target)
        return source, target

    def has_pair(self, source_language: str, target_language: str) -> bool:
        """Whether the model translates from the one language into the other."""
        try:
            self.pair(source_language, target_language)
        except InputError:
            return False
        return True

    def _chosen(self, side: str, given: str | None) -> str | None:
        code = given or getattr(self, side)
        known = self._known(side)
        if code is not None:
            return self._checked(side, code)
        if len(known) == 1:
            return known[0]
        if side == "source" and not self.needs_source:
            return None
        from_or_into = "from" if side == "source" else "into"
        raise InputError(
            f"the model translates {from_or_into} {_counted(known)}; give "
            f"{side}_language (--{side}-language on the command line)"
        )

    def _checked(self, side: str, code: str) -> str:
        known = self._known(side)
        is_free = side == "source" and not self.needs_source and self.sources is None
        if code in known or is_free:  # of which nothing is known, and nothing depends
            return code
        shown = code[:_LONGEST]
        if code in self.codes:
            from_or_into = "from" if side == "source" else "into"
            raise InputError(
                f"the model does not translate {from_or_into} {shown!r}, but "
                f"{from_or_into} {_counted(known)}; give another {side}_language"
            )
        near = near_codes(shown, known)
        rest = f"near: {', '.join(near)}" if near else f"give one of {_named(known)}"
        languages = "language" if len(known) == 1 else "languages"
        raise InputError(
            f"{side}_language: the model knows {len(known)} {languages}, not "
            f"{shown!r}; {rest}"
        )

    def _prefix(self, source: str | None, target: str | None) -> str:
        if not self.prefixes:
            return ""
        for key in (source or "", _ANY):
            if (text := self.prefixes.get(key, {}).get(target or "")) is not None:
                return text
        pairs = [
            f"{one}-{other}" for one in self.prefixes for other in self.prefixes[one]
        ]
        raise InputError(
            f"the model does not translate from {source!r} into {target!r}; its pairs "
            f"are {_named(pairs)}"
        )

    def info(self) -> dict[str, Any]:
        """The facts about languages that `keras-transformer info` prints."""
        facts = {
            "languages": _counted(tuple(self.codes)),
            "source languages": None if self.sources is None else _named(self.sources),
            "target languages": None if self.targets is None else _named(self.targets),
            "source language": self.source,
            "target language": self.target,
        }
        return {name: fact for name, fact in facts.items() if fact is not None}


def direction_of(
    languages: Languages | None,
    config: TranslationConfig,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Direction:
    """The direction of a model, with or without languages.

    Args:
        languages: of the model; None where it has none.
        config: its config.
        source_language: a code; the default if left out.
        target_language: a code; the default if left out.

    Raises:
        InputError: where a code is missing or not known, or the model has no languages
            and a code is given.

    Example:

    >>> import keras_transformer as kt
    >>> from keras_transformer.config.languages import direction_of
    >>> direction_of(None, kt.TransformerConfig(vocabulary_size=30)).source_ids([7])
    [7, 2]
    """
    if languages is not None:
        ids = config.special_ids
        return languages.direction(ids, source_language, target_language)
    refuse_languages(source_language, target_language)
    end = (config.end_id,)
    return Direction(
        source_after=end if config.source_end else (),
        target_after=end,
        start_id=config.start_id,
    )


def refuse_languages(source_language: Any, target_language: Any) -> None:
    """Refuses codes for a model that has one pair of languages.

    Raises:
        InputError: where one is given.
    """
    given = {"source_language": source_language, "target_language": target_language}
    for name, code in given.items():
        if code is not None:
            raise InputError(
                f"{name} {str(code)[:_LONGEST]!r} is given, but the model translates "
                f"between two languages, without codes for them; leave it out"
            )


def alike(one: Languages | None, other: Languages | None) -> bool:
    """Whether two models are told their languages in the same way, defaults aside."""
    sections = [
        languages and languages.model_dump(exclude={"source", "target"})
        for languages in (one, other)
    ]
    return sections[0] == sections[1]


def _around(
    layout: tuple[str, ...], ids: Mapping[str, int | None]
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The ids before and after the text."""
    place = layout.index("text")
    before, after = (
        tuple(number for part in parts if (number := ids[part]) is not None)
        for parts in (layout[:place], layout[place + 1 :])
    )
    return before, after


def _counted(codes: Sequence[str]) -> str:
    """`3 languages: de, en, fr`."""
    languages = "language" if len(codes) == 1 else "languages"
    return f"{len(codes)} {languages}: {_named(codes)}"


def _named(codes: Iterable[str]) -> str:
    codes = list(codes)
    more = len(codes) - _MOST_NAMED
    named = ", ".join(codes[: _MOST_NAMED if more > 0 else None])
    return f"{named} and {more} more" if more > 0 else named
