"""CTranslate2 folders, and packages of Argos Translate, which hold one.

Reference: Klein et al., 2020, https://aclanthology.org/2020.ngt-1.25; Finlay and Argos
Translate, https://github.com/argosopentech/argos-translate.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.control_characters import escaped
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.importing.argos import METADATA
from keras_transformer.importing.families import ctranslate2_layers
from keras_transformer.importing.families import ctranslate2_positions
from keras_transformer.importing.families import ctranslate2_vocabulary
from keras_transformer.importing.families import marian
from keras_transformer.importing.families import t5
from keras_transformer.importing.families.ctranslate2_config import HEADS
from keras_transformer.importing.families.ctranslate2_config import Numbers
from keras_transformer.importing.families.ctranslate2_config import architecture
from keras_transformer.importing.families.ctranslate2_config import equal_tables
from keras_transformer.importing.families.ctranslate2_layers import TARGET_EMBEDDINGS
from keras_transformer.importing.families.ctranslate2_layers import source_embeddings
from keras_transformer.importing.families.ctranslate2_positions import refused
from keras_transformer.importing.families.ctranslate2_vocabulary import Vocabularies
from keras_transformer.importing.foreign_model import ForeignModel
from keras_transformer.importing.generation_config import decoding_of
from keras_transformer.importing.reading import TensorFile
from keras_transformer.importing.reading import open_tensors
from keras_transformer.importing.reading.ctranslate2_file import CTranslate2File
from keras_transformer.importing.source import Source

FAMILY, ARGOS = "CTranslate2", "Argos Translate"
_MODEL, _INSIDE = "model.bin", "model"
_SHOWN = 60  # characters of a name from a file
#: Keys of `config.json` that are read.
_CONFIG = {
    "add_source_bos": False,
    "add_source_eos": False,
    "bos_token": "<s>",
    "eos_token": "</s>",
    "unk_token": "<unk>",
    "layer_norm_epsilon": None,
    "multi_query_attention": False,
}
_START = "decoder_start_token"
#: The search of the library, which wants a piece before the end; that of Argos.
_SEARCH: dict[str, Any] = {
    "beam_size": 2,
    "normalization": "average",
    "min_length": 2,
}
_ARGOS_SEARCH = {
    **_SEARCH,
    "beam_size": 4,
    "normalization": "power",
    "length_penalty": 0.2,
}
#: Options of the library's search that a config may hold -> ours.
_OPTIONS = {
    "beam_size": "beam_size",
    "length_penalty": "length_penalty",
    "max_decoding_length": "max_length",
    "no_repeat_ngram_size": "no_repeat_ngram_size",
    "repetition_penalty": "repetition_penalty",
}
#: Numbers that change no translation here, by the ends of their names.
_IGNORABLE = (
    "decoder/alignment_heads",
    "decoder/alignment_layer",
    "decoder/alibi_use_positive_positions",
    "decoder/scale_alibi",
    "encoder/embeddings_merge",
    "*/queries_scale",
    "*/num_heads_kv",
    "*/head_dim",
    "encoder/num_heads",
    "decoder/num_heads",
    f"*/{ctranslate2_positions.DISTANCE}",
)


def is_in(source: Source) -> bool:
    """Whether there is a CTranslate2 model, or a package that holds one."""
    if source.path.is_file() and source.path.name != _MODEL:
        return False
    if _is_package(source):
        return True
    return source.has(_MODEL) and ctranslate2_vocabulary.is_in(source)


def open_weights(source: Source) -> TensorFile:
    """Opens `model.bin`.

    Raises:
        InputError: as `open_tensors` does.
    """
    name = f"{_INSIDE}/{_MODEL}" if _is_package(source) else _MODEL
    return open_tensors(plain_file(source.folder, name))


def read(source: Source, tensors: TensorFile) -> ForeignModel:
    """What such a folder holds.

    Raises:
        InputError: where a file is missing or damaged, there is no tokenizer, or the
            model has parts that this package has not.
    """
    is_package = _is_package(source)
    beside = Source(source.folder / _INSIDE) if is_package else source
    if not isinstance(tensors, CTranslate2File):
        raise InputError(
            f"{tensors.path} is no model of CTranslate2, but its vocabularies lie "
            f"beside it; give the folder that was downloaded"
        )
    if tensors.specification not in HEADS:
        raise refused(tensors, f"the specification {tensors.specification[:_SHOWN]}")
    own = _own_description(beside)
    numbers = Numbers(tensors)
    given = _settings(beside, numbers, own)
    vocabularies = _vocabularies(beside, given, numbers)
    positions = ctranslate2_positions.positions(tensors)
    languages, told_by_start = _languages_by_ids(given, vocabularies)
    if given[_START] is None and not told_by_start:
        raise refused(tensors, f"a {_START} that whoever translates gives")
    config = architecture(given, numbers, vocabularies, positions)
    tokenizers = ctranslate2_vocabulary.tokenizers(source, beside, vocabularies)
    if languages is None:
        languages = marian.languages_of(tokenizers[0])
        languages = languages or t5.languages_by_tags(tokenizers[0])
    metadata = source.json(METADATA) if is_package else {}
    if is_package:
        languages = _languages_of_package(metadata, config)
    decoding, left_out = _decoding(beside, config, languages, own, is_package)
    if prefix := metadata.get("target_prefix"):
        decoding = decoding.updated({"forced_start": _id_of(prefix, vocabularies)})
    return ForeignModel(
        family=ARGOS if is_package else FAMILY,
        config=config,
        weights={
            **dict(ctranslate2_layers.attention_weights(config, tensors)),
            **dict(ctranslate2_layers.embedding_weights(config, tensors, vocabularies)),
            **positions.weights,
        },
        source_tokenizer=tokenizers[0],
        target_tokenizer=tokenizers[1],
        decoding=decoding,
        languages=languages,
        known_words=own.get("known_words"),
        about=own.get("about", About()),
        left_out=left_out,
        ignorable=(
            *_IGNORABLE,
            *positions.unused,
            *numbers.read,
            *ctranslate2_layers.matrices(tensors),  # names of one that is shared
        ),
        equal=equal_tables(numbers, positions),
    )


def _is_package(source: Source) -> bool:
    return source.has(METADATA) and source.has(f"{_INSIDE}/{_MODEL}")


# === Settings and vocabularies ===


def _settings(
    source: Source, numbers: Numbers, own: Mapping[str, Any]
) -> dict[str, Any]:
    """What `config.json` says, or what files of before said in `model.bin`."""
    given = {**_CONFIG, "pad": None}
    for side in ("bos", "eos"):
        given[f"add_source_{side}"] = bool(numbers.get(f"with_source_{side}", 0))
    user_starts = bool(numbers.get("user_decoder_start_tokens", 0))
    with_start = bool(numbers.get("with_target_bos", 1))
    given |= source.config
    start = given["bos_token"] if with_start else given["eos_token"]
    given.setdefault(_START, None if user_starts else start)
    for name in ("bos_token", "eos_token", "unk_token", _START):
        if not isinstance(given[name], str | (type(None) if name == _START else str)):
            raise InputError(
                f"{source.folder / 'config.json'}: {name} must be a piece, got "
                f"{str(given[name])[:_SHOWN]!r}; get the file again"
            )
    if given["add_source_bos"]:
        raise refused(numbers.file, "add_source_bos, a start token of its sources,")
    if own:
        given["pad"] = own["pad"]
        given["source_end"] = own["source_end"]
    return given


def _vocabularies(
    source: Source, given: Mapping[str, Any], numbers: Numbers
) -> Vocabularies:
    file = numbers.file
    pieces = ctranslate2_vocabulary.read_pieces(source)
    names = (source_embeddings(file), TARGET_EMBEDDINGS)
    for name, side, held in zip(("source", "target"), names, pieces, strict=True):
        rows = file.tensors[side].shape[:1] if side in file.tensors else ()
        if rows and rows[0] != len(held):
            raise InputError(
                f"{source.folder}: the vocabulary of the {name} has {len(held)} "
                f"pieces, but its matrix {rows[0]} rows; use the files that belong "
                f"together"
            )
    if given["pad"] is not None:
        if given["pad"] >= len(pieces[1]):
            raise InputError(
                f"{source.folder / 'model.json'}: ids.pad {given['pad']} is not one of "
                f"the {len(pieces[1])} of the vocabulary; export the model again"
            )
        given = {**given, "pad": pieces[1][given["pad"]]}
    zeros = bool(numbers.get("decoder/start_from_zero_embedding", 0))
    try:
        return ctranslate2_vocabulary.arranged(pieces, given, starts_with_zeros=zeros)
    except InputError as error:
        raise InputError(f"{source.folder}: {error}") from None


# === Languages and search ===


def _languages_by_ids(
    given: Mapping[str, Any], vocabularies: Vocabularies
) -> tuple[Languages | None, bool]:
    """The languages of models that start with their end or with a language."""
    told_by_start = given[_START] is None
    ids = vocabularies.special_ids
    if not vocabularies.shared or ids["start_id"] != ids["end_id"]:
        return None, False
    found = ctranslate2_vocabulary.languages_of(
        vocabularies.target.pieces, told_by_start=told_by_start
    )
    return found, told_by_start and found is not None


def _languages_of_package(
    metadata: Mapping[str, Any], config: TransformerConfig
) -> Languages | None:
    source, target = (metadata.get(f"{end}_code") for end in ("from", "to"))
    if not isinstance(source, str) or not isinstance(target, str):
        raise InputError(
            f"{METADATA} of the package lacks from_code and to_code; get the package "
            f"again"
        )
    return Languages.of(
        {
            "codes": dict.fromkeys((source, target)),
            "source": source,
            "target": target,
            "sources": (source,),
            "targets": (target,),
            "source_layout": ("text", "end") if config.source_end else ("text",),
        },
        METADATA,
    )


def _id_of(piece: Any, vocabularies: Vocabularies) -> int:
    try:
        return vocabularies.target.pieces.index(piece)
    except ValueError:
        raise InputError(
            f"{METADATA}: target_prefix {str(piece)[:_SHOWN]!r} is not in the "
            f"vocabulary of the target; get the package again"
        ) from None


def _decoding(
    source: Source,
    config: TransformerConfig,
    languages: Languages | None,
    own: Mapping[str, Any],
    is_package: bool,
) -> tuple[DecodingOptions, tuple[str, ...]]:
    if source.generation_config:
        return decoding_of(
            source, config, languages, longest=config.max_sequence_length
        )
    options = dict(own.get("search") or (_ARGOS_SEARCH if is_package else _SEARCH))
    forbidden = {*own.get("suppressed", ())} - {*config.suppressed_ids}
    if forbidden:
        options["suppressed_tokens"] = tuple(sorted(forbidden))
    notes = ["replace_unknowns of Argos Translate"] if is_package else []
    for key, value in source.config.items():
        if key in _OPTIONS:
            options[_OPTIONS[key]] = value
            if key == "length_penalty":
                options["normalization"] = "power"
        elif key == "min_decoding_length":  # here the end is included
            options["min_length"] = value + 1 if isinstance(value, int) else value
        elif key not in (*_CONFIG, _START):
            notes.append(f"{escaped(key)[:_SHOWN]} of config.json: unknown; unused")
    try:
        return DecodingOptions.of(options, "search"), tuple(notes)
    except (InputError, TypeError) as error:
        raise InputError(f"{source.folder}: {error}") from None


# === Exports of this package ===


def _own_description(source: Source) -> dict[str, Any]:
    """What `model.json` of an export of this package says; nothing without one."""
    name = "model.json"
    content = source.json(name) if source.has(name) else {}
    if content.get("format") != "ctranslate2":
        return {}
    path = source.folder / name
    if "languages" in content:
        raise InputError(
            f"{path}: the export is of one direction of a multilingual model; import "
            f"nothing, but take the model folder that it was exported from"
        )
    ids, search = content.get("ids"), content.get("search")
    ids = ids if isinstance(ids, dict) else {}
    pad, suppressed = ids.get("pad"), ids.get("suppressed", ())
    if not isinstance(pad, int) or pad < 0 or not isinstance(search, dict):
        raise InputError(
            f"{path} lacks ids or search; export the model again, with this version"
        )
    if not isinstance(suppressed, list | tuple) or not all(
        isinstance(number, int) for number in suppressed
    ):
        raise InputError(f"{path}: ids.suppressed are no ids; export the model again")
    files = content.get("files")
    has_words = isinstance(files, dict) and files.get("known_words") == KNOWN_WORDS
    return {
        "pad": pad,
        "search": search,
        "suppressed": suppressed,
        "source_end": content.get("source_end", True),
        "about": About.of(content.get("about") or {}, f"{path}: about"),
        "known_words": KnownWords.load(source.folder) if has_words else None,
    }
