"""Vocabularies and tokenizers of CTranslate2 folders.

A folder has the pieces of each id, and no tokenizer: it lies beside them, or is given.
Here both sides of a model have the same ids for padding, start and end, and a row for
each; what a vocabulary lacks of them is put behind it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple

from keras_transformer.config.languages import Languages
from keras_transformer.data.foreign_pieces import of_bytes
from keras_transformer.data.foreign_pieces import pieces_of
from keras_transformer.data.foreign_pieces import with_pieces
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.importing.families import language_codes
from keras_transformer.importing.source import Source

#: Of a row that the file has not.
NO_ROW = -1
_SIDES = ("source", "target")
_PADDING = ("<pad>", "<blank>")
_TAG = re.compile(r">>[^<>]+<<")  # of a language, by Marian
_BRACKETED = re.compile(r"<[^<>]+>|>>[^<>]+<<")
#: How languages are spelled: by NLLB, mBART, M2M100.
_LANGUAGES = (
    re.compile(r"([a-z]{3}_[A-Z][a-z]{3})"),
    re.compile(r"([a-z]{2}_[A-Z]{2})"),
    re.compile(r"__([a-z]{2,3})__"),
)
#: Names of SentencePiece models that may lie beside a model, for either side.
_MODELS = (
    "tokenizer.model",
    "sentencepiece.model",
    "sentencepiece.bpe.model",
    "spiece.model",
    "spm.128k.model",
)
_BYTES_FROM, _BYTES_TO = 3, 259  # of byT5


class Side(NamedTuple):
    """The vocabulary of one side as it is here.

    Attributes:
        pieces: the piece of each id.
        rows: the row of the file for each id, `NO_ROW` where it has none.
    """

    pieces: list[str]
    rows: list[int]


class Vocabularies(NamedTuple):
    """The vocabularies of both sides, and the ids that they share.

    Attributes:
        source: of the source.
        target: of the target.
        special_ids: `pad_id`, `start_id` and `end_id`.
        unknown: the piece that stands for unknown characters.
    """

    source: Side
    target: Side
    special_ids: dict[str, int]
    unknown: str

    @property
    def shared(self) -> bool:
        """Whether both sides have the same pieces."""
        return self.source == self.target


def is_in(source: Source) -> bool:
    """Whether there is a vocabulary of CTranslate2, by the names of the files."""
    forms = ("shared_vocabulary", "source_vocabulary")
    names = [f"{form}.{end}" for form in forms for end in ("json", "txt")]
    return source.first(*names) is not None


def read_pieces(source: Source) -> tuple[list[str], list[str]]:
    """The pieces of source and target in the order of the file's rows.

    Raises:
        InputError: where a file is missing or damaged.
    """
    if name := source.first("shared_vocabulary.json", "shared_vocabulary.txt"):
        pieces = _pieces(source, name)
        return pieces, pieces
    sides = []
    for side in _SIDES:
        names = [f"{side}_vocabulary.{end}" for end in ("json", "txt")]
        sides.append(_pieces(source, source.first(*names) or names[0]))
    return sides[0], sides[1]


def _pieces(source: Source, name: str) -> list[str]:
    content = source.bytes(name)
    pieces: Any
    try:
        if name.endswith(".json"):
            pieces = json.loads(content)
        else:
            pieces = content.decode().removesuffix("\n").split("\n")
    except (RecursionError, ValueError):
        pieces = None
    if not isinstance(pieces, list) or not all(isinstance(p, str) for p in pieces):
        raise InputError(
            f"{source.folder / name} holds no list of pieces, or is cut off; get it "
            f"again"
        )
    return pieces


# === Ids ===


def arranged(
    pieces: tuple[list[str], list[str]],
    given: Mapping[str, Any],
    *,
    starts_with_zeros: bool,
) -> Vocabularies:
    """The vocabularies with one id for padding, start and end of both sides.

    Args:
        pieces: of source and target.
        given: the tokens of `config.json`.
        starts_with_zeros: whether the first input of the decoder is a row of zeros.

    Raises:
        InputError: where the vocabulary of the target lacks its start or end.
    """
    source, target = map(_each_once, pieces)
    taken = {*source, *target}
    added = []
    unknown = given["unk_token"]
    if unknown not in target:
        added.append(unknown)
    end = given["eos_token"]
    # A model that is told its start by the language it writes starts with its end.
    start = (
        end if given["decoder_start_token"] is None else given["decoder_start_token"]
    )
    pad = next((p for p in (given["pad"], *_PADDING) if p in target and p != end), None)
    if starts_with_zeros or pad is None:
        pad = next(name for name in _numbered("<pad>") if name not in taken)
        added.append(pad)
    if starts_with_zeros:
        start = pad
    ours = [*target, *added]
    for name in (start, end):
        if name not in ours:
            raise InputError(
                f"the vocabulary of the target lacks {str(name)[:100]!r}, which starts "
                f"or ends its translations; use the files that belong together"
            )
    special = {name: ours.index(name) for name in (pad, start, end)}
    side = Side(ours, [*range(len(target)), *[NO_ROW] * len(added)])
    is_shared = source == target
    ids = {"pad_id": pad, "start_id": start, "end_id": end}
    return Vocabularies(
        side if is_shared else _placed(source, {unknown: None, **special}),
        side,
        {name: special[piece] for name, piece in ids.items()},
        unknown,
    )


def _each_once(pieces: list[str]) -> list[str]:
    """The pieces, those in brackets that come again under other names.

    Converters fill vocabularies up with names that they have already.
    """
    seen: set[str] = set()
    others = _numbered("<filler>")
    ours = []
    for piece in pieces:
        name = piece
        if name in seen and _BRACKETED.fullmatch(name):
            name = next(n for n in others if n not in seen and n not in pieces)
        seen.add(name)
        ours.append(name)
    return ours


def _placed(pieces: list[str], special: Mapping[str, int | None]) -> Side:
    """The side with special pieces at their ids; one without an id anywhere."""
    places = {number: name for name, number in special.items() if number is not None}
    rest = [name for name in pieces if name not in places.values()]
    rest += [name for name in special if name not in (*pieces, *places.values())]
    size = max(len(rest) + len(places), max(places, default=0) + 1)
    taken = {*pieces, *special}
    fillers = (name for name in _numbered("<filler>") if name not in taken)
    others = iter([*rest, *(next(fillers) for _ in range(size - len(rest)))])
    ours = [places[i] if i in places else next(others) for i in range(size)]
    rows = {name: row for row, name in enumerate(pieces)}
    return Side(ours, [rows.get(name, NO_ROW) for name in ours])


def _numbered(name: str) -> Iterator[str]:
    """The name, then others that are like it."""
    yield name
    number = 1
    while True:
        yield f"{name[:-1]}{number}>"
        number += 1


# === Tokenizers ===


def tokenizers(
    source: Source, beside: Source, vocabularies: Vocabularies
) -> tuple[Tokenizer, Tokenizer]:
    """The tokenizers of source and target.

    Args:
        source: what is imported, with the tokenizers that were given.
        beside: the folder of the model.
        vocabularies: of both sides.

    Raises:
        InputError: where there is none, or it does not fit the vocabulary.
    """
    if _is_of_bytes(vocabularies):
        tokenizer = Tokenizer(of_bytes(len(vocabularies.target.pieces)))
        return tokenizer, tokenizer
    found = {side: _path(side, source, beside) for side in _SIDES}
    chosen = []
    for side, other in (_SIDES, _SIDES[::-1]):
        path = found[side] or (found[other] if vocabularies.shared else None)
        if path is None:
            raise InputError(
                f"{source.path} has no tokenizer of the {side}, which CTranslate2 "
                f"leaves out; get the SentencePiece model that cut its training text, "
                f"and give it as --{side}-tokenizer FILE ({side}_tokenizer in Python)"
            )
        chosen.append(path)
    first, second = chosen
    tokenizer = _tokenizer(first, vocabularies.source, vocabularies)
    if vocabularies.shared and first == second:
        return tokenizer, tokenizer
    return tokenizer, _tokenizer(second, vocabularies.target, vocabularies)


def _path(side: str, source: Source, beside: Source) -> Path | None:
    """The file of a tokenizer: as given, else beside the model or its folder."""
    if (given := source.tokenizers.get(side)) is not None:
        return given
    for place in (beside, source):
        if place.has("bpe.model"):
            raise InputError(
                f"{place.folder / 'bpe.model'}: models that cut text by subword-nmt "
                f"cannot be imported; take one with sentencepiece.model, or translate "
                f"with Argos Translate"
            )
        if name := place.first(f"{side}.model", f"{side}.spm", *_MODELS):
            return place.folder / name
    return None


def _tokenizer(path: Path, side: Side, vocabularies: Vocabularies) -> Tokenizer:
    pieces, ids = side.pieces, vocabularies.special_ids
    model = Source(path).bytes(path.name)
    try:
        own = pieces_of(model)
        text = [name for name in own if not _BRACKETED.fullmatch(name)]
        known = len({*text} & {*pieces})
        if 2 * known < len(text):
            raise InputError(
                f"of its {len(text)} pieces only {known} are in the vocabulary; give "
                f"the tokenizer that the model was trained with"
            )
        if own == pieces:
            tokenizer = Tokenizer(model)
            if tokenizer.special_ids == ids:
                return tokenizer
        control = [
            name
            for name in pieces
            if _TAG.fullmatch(name) or (name not in own and _BRACKETED.fullmatch(name))
        ]
        control += [pieces[number] for number in _codes(pieces).values()]
        return Tokenizer(
            with_pieces(
                model,
                pieces,
                unknown=vocabularies.unknown,
                start=pieces[ids["start_id"]],
                end=pieces[ids["end_id"]],
                pad=pieces[ids["pad_id"]],
                control=control,
            )
        )
    except InputError as error:
        raise InputError(f"{path}: {error}") from None


def _is_of_bytes(vocabularies: Vocabularies) -> bool:
    """Whether the pieces are those of byT5, which has no tokenizer."""
    pieces, size = vocabularies.target.pieces, _BYTES_TO - _BYTES_FROM
    return (
        vocabularies.shared
        and pieces[:_BYTES_FROM] == ["<pad>", "</s>", "<unk>"]
        and pieces[_BYTES_FROM:_BYTES_TO] == [chr(i) for i in range(size)]
    )


# === Languages ===


def languages_of(pieces: Sequence[str], *, told_by_start: bool) -> Languages | None:
    """The languages that a vocabulary has as NLLB, mBART or M2M100 spell them.

    Args:
        pieces: of both sides.
        told_by_start: whether the decoder starts with the language, as mBART-25's.
    """
    codes = _codes(pieces)
    if not codes or (told_by_start and len(codes) != len(language_codes.MBART_25)):
        return None
    fields: dict[str, Any] = {
        "codes": codes,
        "source_layout": ("source", "text", "end"),
        "target_layout": ("target", "text", "end"),
    }
    if told_by_start:
        fields["source_layout"] = ("text", "end", "source")
        fields["target_layout"] = ("text", "end", "target")
        fields["decoder_start"] = "target"
    return Languages.of(fields)


def _codes(pieces: Sequence[str]) -> dict[str, int]:
    """The ids of the languages, by their codes; none where there are not several."""
    for spelling in _LANGUAGES:
        found = enumerate(map(spelling.fullmatch, pieces))
        codes = {match[1]: number for number, match in found if match}
        if len(codes) > 1:
            return codes
    return {}
