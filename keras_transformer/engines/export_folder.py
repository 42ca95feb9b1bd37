"""Reader of a folder of `export --format ctranslate2`, safe for untrusted folders.

Only regular files inside the folder are opened, and the library gets the checked bytes:
it opens no files itself.
"""

import json
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal
from typing import NamedTuple

import pydantic

from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.faults import first_fault
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_bounds import load_within_bounds
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.engines.export_weights import check_weights
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_CONFIG_BYTES
from keras_transformer.files.plain_file import plain_file

_WEIGHTS = "model.bin"
_AGAIN = "export the model again"
_LONGEST_REASON = 300  # characters: it quotes the file

_EARLIEST = ("beam_size", "length_penalty")
_SEARCH = {name for name, option in OPTIONS.items() if option.exports == "every"}
_SEARCH -= {"top_beams", "suppressed_tokens", "long_lines"}

_TokenizerFile = Literal[TOKENIZER_FILES]  # type: ignore[valid-type]  # kept once
_Id = Annotated[int, pydantic.Field(ge=0, lt=2**31)]
_Length = Annotated[int, pydantic.Field(ge=2, lt=2**31)]


class _Part(pydantic.BaseModel):
    """Keys that translation needs; other keys are ignored."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="ignore", strict=True, allow_inf_nan=False
    )


class _Files(_Part):
    source_tokenizer: _TokenizerFile
    target_tokenizer: _TokenizerFile
    known_words: Literal["known_words.json"] | None = None


class _Ids(_Part):
    pad: _Id
    start: _Id
    end: _Id
    suppressed: list[_Id]


class _Languages(_Part):
    """What stands around a line of a multilingual model, see `model.json`."""

    prefix: str
    before: list[_Id]
    after: list[_Id]


class Bounds(_Part):
    """Bounds of lengths in tokens, the end included, except for `extra_length`."""

    extra_length: _Id
    longest_sequence: _Length


def _used(search: Any) -> Any:
    """The options of a section `search`; the first version wrote only `_EARLIEST`.

    The server decides the number of hypotheses, and refuses long lines.
    """
    if not isinstance(search, dict):
        return search
    for name in _EARLIEST:
        if name not in search:
            raise ValueError(f"{name} is missing")
    return {name: value for name, value in search.items() if name in _SEARCH}


class Description(_Part):
    """The content of `model.json` that translation needs."""

    format: Literal["ctranslate2"]
    format_version: Literal[1, 2]
    files: _Files
    ids: _Ids
    source_end: bool
    languages: _Languages | None = None
    about: About = About()
    source_vocabulary_size: _Length
    target_vocabulary_size: _Length
    limits: Bounds
    search: Annotated[DecodingOptions, pydantic.BeforeValidator(_used)]


class Contents(NamedTuple):
    """The content of a folder; `files` are loaded by the library, by name."""

    description: Description
    source: Tokenizer
    target: Tokenizer
    files: dict[str, bytes]
    known_words: KnownWords | None


def read(folder: Path) -> Contents:
    """Reads an export.

    Raises:
        InputError: where a file is missing, truncated, foreign or inconsistent.
    """
    description = _described(folder)
    files = description.files
    sizes = description.source_vocabulary_size, description.target_vocabulary_size
    weights = plain_file(folder, _WEIGHTS)
    check_weights(weights, sizes, description.limits.longest_sequence)
    source, target = (
        load_within_bounds(folder, name, size)
        for name, size in zip(
            (files.source_tokenizer, files.target_tokenizer), sizes, strict=True
        )
    )
    ids = {f"{name}_id": getattr(description.ids, name) for name in ("pad", "start")}
    if description.languages:  # one of which the decoder may start with
        ids["start_id"] = source.special_ids["start_id"]
    for side, tokenizer, size in zip(
        ("source", "target"), (source, target), sizes, strict=True
    ):
        where = f"{folder}, {side}"
        tokenizer.check(
            vocabulary_size=size, end_id=description.ids.end, where=where, **ids
        )
    around = description.languages
    if around and max((*around.before, *around.after), default=0) >= sizes[0]:
        raise InputError(
            f"{folder / 'model.json'}: languages has ids that are not below the size "
            f"of the vocabulary, {sizes[0]}; {_AGAIN}"
        )
    if description.ids.start >= sizes[1]:
        raise InputError(
            f"{folder / 'model.json'}: ids.start is no id below the size of the "
            f"vocabulary, {sizes[1]}; {_AGAIN}"
        )
    if max(description.ids.suppressed, default=0) >= sizes[1]:
        raise InputError(
            f"{folder / 'model.json'}: ids.suppressed are not all below the size of "
            f"the vocabulary, {sizes[1]}; {_AGAIN}"
        )
    start = description.search.forced_start
    if start is not None and not (isinstance(start, int) and start < sizes[1]):
        raise InputError(
            f"{folder / 'model.json'}: search.forced_start is no id below the size of "
            f"the vocabulary, {sizes[1]}; {_AGAIN}"
        )
    try:
        pieces = [side.pieces(range(side.vocabulary_size)) for side in (source, target)]
    except UnicodeDecodeError:
        raise InputError(
            f"{folder}: a tokenizer has pieces that are not text; {_AGAIN}"
        ) from None
    contents = {
        **_vocabularies(folder, *pieces),
        "config.json": _config(folder, description, pieces[1], target.unknown_id),
    }
    contents[_WEIGHTS] = weights.read_bytes()
    known_words = KnownWords.load(folder) if files.known_words else None
    return Contents(description, source, target, contents, known_words)


def _described(folder: Path) -> Description:
    described = _read_json(folder, "model.json")
    try:
        return Description.model_validate(described)
    except pydantic.ValidationError as error:
        why = first_fault(error, Description, "").removeprefix(": ")
        raise InputError(
            f"{folder / 'model.json'} is not a file of the export: "
            f"{why[:_LONGEST_REASON]}; {_AGAIN}"
        ) from None


def _vocabularies(
    folder: Path, source: list[str], target: list[str]
) -> dict[str, bytes]:
    """The vocabulary files, checked against the tokenizers."""
    if source == target:
        expected = {"shared_vocabulary.json": target}
    else:
        expected = {
            "source_vocabulary.json": source,
            "target_vocabulary.json": target,
        }
    for name, pieces in expected.items():
        # Every character may be escaped; there is little white space.
        size = sum(12 * len(piece) + 32 for piece in pieces) + MOST_CONFIG_BYTES
        if _read_json(folder, name, size) != pieces:
            raise InputError(
                f"{folder / name} has other pieces than the tokenizer; {_AGAIN}"
            )
    return {name: _as_json(pieces) for name, pieces in expected.items()}


def _config(
    folder: Path, description: Description, pieces: list[str], unknown_id: int
) -> bytes:
    """The library's config, checked against `model.json`."""
    start, end = pieces[description.ids.start], pieces[description.ids.end]
    expected = {
        "add_source_bos": False,
        "add_source_eos": description.source_end,
        "bos_token": start,
        "decoder_start_token": start,
        "eos_token": end,
        "unk_token": pieces[unknown_id],
    }
    config = _read_json(folder, "config.json")
    epsilon = config.get("layer_norm_epsilon") if isinstance(config, dict) else None
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise InputError(
            f"{folder / 'config.json'} has no layer_norm_epsilon between 0 and 1; "
            f"{_AGAIN}"
        )
    for name, value in expected.items():
        if config.get(name) != value:
            raise InputError(
                f"{folder / 'config.json'}: {name} is not {value!r}, as the model has "
                f"it; {_AGAIN}"
            )
    return _as_json({**expected, "layer_norm_epsilon": epsilon})


def _read_json(folder: Path, name: str, most: int = MOST_CONFIG_BYTES) -> Any:
    path = plain_file(folder, name, most)
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InputError(
            f"{folder} is not a complete export to CTranslate2: cannot read {name} "
            f"({error.strerror}); {_AGAIN}"
        ) from None
    except (RecursionError, ValueError):
        raise InputError(f"{path} is not JSON, or is truncated; {_AGAIN}") from None


def _as_json(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()
