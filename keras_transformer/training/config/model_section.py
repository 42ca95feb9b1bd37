"""The `model` section of a run config: kind, preset, or a folder for fine-tuning."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pydantic

from keras_transformer.config import KINDS
from keras_transformer.config import TranslationConfig
from keras_transformer.config import config_class
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.faults import places
from keras_transformer.config.faults import suggestion
from keras_transformer.config.own_kinds import module_of
from keras_transformer.data.tokenizer_files import tokenizer_files
from keras_transformer.errors import InputError
from keras_transformer.training.config.data_section import VOCABULARY_SIZE
from keras_transformer.training.config.data_section import DataSection
from keras_transformer.training.config.data_section import TokenizerSection
from keras_transformer.training.config.section import expanded
from keras_transformer.training.config.training_section import TrainingSection
from keras_transformer.user_modules import import_module

_NEW = "new_vocabulary"
_SIZES = ("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size")
_IDS = ("pad_id", "start_id", "end_id")
_OTHERS = ("kind", "preset", "folder", _NEW)
#: Fields of every kind, in every version.
_IN_EACH = {"kind", "hidden_dim", "dropout", "tie_embeddings", "max_sequence_length"}
#: Decoding options that name pieces.
_OF_PIECES = ("suppressed_tokens", "forced_start")
_DEFAULTS = {"kind": "transformer", "preset": "base"}
_NO_OTHERS: Mapping[str, Any] = {}


def resolve(
    section: Any, folder: Path, defaults: Mapping[str, Any] = _NO_OTHERS
) -> dict[str, Any]:
    """The section with every field of its kind.

    Args:
        section: as it was given.
        folder: what `folder` in it is relative to.
        defaults: in place of the kind's own; a preset that is named goes before them.

    Raises:
        ValueError: naming the key and what is expected.
    """
    if not isinstance(section, Mapping):
        raise ValueError(f"model: expected keys such as preset, got {section!r}")
    fields = dict(section)
    kind, preset, initial, new = (fields.pop(key, None) for key in _OTHERS)
    if not (new is None or isinstance(new, bool)):
        raise ValueError(f"model.{_NEW}: expected true or false, got {new!r}")
    if new and initial is None:
        raise ValueError(
            f"model.{_NEW} is for a trained model; give model.folder, or remove it"
        )
    if initial is not None:
        if preset is not None:
            raise ValueError(
                "model.folder names a trained model, which model.preset cannot "
                "change; remove one of the two"
            )
        if not isinstance(initial, str | Path) or not str(initial):
            raise ValueError(f"model.folder: expected a path, got {initial!r}")
        initial = os.path.abspath(folder / expanded(initial))
        begun = is_resolved(section)
        ids = {key: fields.pop(key) for key in _IDS if begun and key in fields}
        if begun and not os.path.exists(initial):
            given = {"folder": initial, _NEW: True} if new else {"folder": initial}
            return {**given, **_whole(kind, fields), **ids}
        contents = _read(Path(initial))
        trained, trained_kind = contents.model, contents.kind
        if new and contents.languages is not None:
            raise ValueError(
                f"model.{_NEW} does not go with the multilingual {initial}, whose "
                f"languages have ids in its vocabulary; remove it"
            )
        if kind not in (None, trained_kind):
            raise ValueError(
                f"model.kind {kind!r} is not that of the trained model.folder, "
                f"{trained_kind!r}; remove it"
            )
        _check_keys(fields, trained_kind)
        if not begun and not new:
            ids = trained.special_ids
        return {
            "kind": trained_kind,
            "folder": initial,
            **({_NEW: True} if new else {}),
            **_trained_fields(trained, fields),
            **ids,
        }
    preset = preset or _DEFAULTS["preset"]
    return _whole(kind or _DEFAULTS["kind"], fields, preset, defaults)


def import_kind(section: Any, name: str = "model") -> None:
    """Imports the module of a `kind` of the form `module.Class`.

    Args:
        section: the section `model` or another one with a `kind`.
        name: of the section.

    Raises:
        ValueError: where it cannot be imported.
    """
    kind = section.get("kind") if isinstance(section, Mapping) else None
    if (module := module_of(kind)) is not None:
        import_module(module, f"{name}.kind")


def is_resolved(section: Any) -> bool:
    """Whether a section has every field: that of a run that has begun."""
    return isinstance(section, Mapping) and section.keys() >= _IN_EACH


def knows_ids(section: Mapping[str, Any]) -> bool:
    """Whether a resolved section has the special ids of `model.folder`.

    Versions that did not write them down took no decoding options from it, either.
    """
    return section.keys() >= {*_IDS}


def without_ids(section: Mapping[str, Any]) -> dict[str, Any]:
    """A resolved section as those versions wrote it."""
    return {key: value for key, value in section.items() if key not in _IDS}


def _whole(
    kind: Any,
    fields: Mapping[str, Any],
    preset: Any = None,
    defaults: Mapping[str, Any] = _NO_OTHERS,
) -> dict[str, Any]:
    """Kind and fields; without a preset, `fields` are all."""
    of_kind = _config_class(kind)
    _check_keys(fields, kind)
    fields = {**fields, "vocabulary_size": VOCABULARY_SIZE}
    if preset is None:
        config = of_kind.from_dict(fields)
    elif preset in list(of_kind.presets):
        fields = {**defaults, **of_kind.presets[preset], **fields}
        config = of_kind.from_dict(fields)
    else:
        raise ValueError(
            f"model.preset: expected one of {', '.join(of_kind.presets)}, got "
            f"{preset!r}"
        )
    return {"kind": kind, **config.model_dump(exclude={*_SIZES, *_IDS})}


def _config_class(kind: Any) -> type[TranslationConfig]:
    try:
        return config_class(kind)
    except InputError as error:
        raise ValueError(f"model.kind: {error}") from None


def json_schema() -> dict[str, Any]:
    """The JSON schema of the section as it is written, any of the kinds."""
    own = {
        "type": "object",
        "description": "Model of a class of your own: any field of its config.",
        "properties": {
            "kind": {
                "type": "string",
                "pattern": r"^\w+(\.\w+)+$",
                "description": "Kind of model: module.Class.",
            }
        },
        "required": ["kind"],
    }
    return {"anyOf": [*map(_kind_schema, KINDS), own]}


def _kind_schema(kind: str) -> dict[str, Any]:
    schema = KINDS[kind].model_json_schema()
    fields = schema["properties"]
    schema["properties"] = {
        "kind": {"const": kind, "description": "Kind of model."},
        "preset": {
            "enum": list(KINDS[kind].presets),
            "description": "Preset: a set of sizes by name, which fields change.",
        },
        "folder": {
            "type": "string",
            "description": "Fine-tuning: the trained model folder to begin with.",
        },
        _NEW: {
            "type": "boolean",
            "description": "New vocabulary: the tokenizers are those of `tokenizer`; "
            "pieces of the old vocabulary keep their weights.",
        },
        **{key: fields[key] for key in fields if key not in _SIZES + _IDS},
    }
    is_default = kind == _DEFAULTS["kind"]
    return {**schema, "required": [] if is_default else ["kind"]}


def has_field(kind: Any, key: str) -> bool:
    """Whether a kind of model has the field; of an unknown kind, True."""
    if kind not in list(KINDS):
        return True
    config = KINDS[kind]
    return key in {*_OTHERS, *config.model_fields, *config.old_names}


def model_config(
    section: Mapping[str, Any], source_size: int, target_size: int, **ids: int
) -> TranslationConfig:
    """The config of the model of a resolved section.

    Args:
        section: what `resolve` returned.
        source_size: V of the source.
        target_size: V of the target.
        ids: `pad_id`, `start_id`, `end_id` of the tokenizers.

    Raises:
        InputError: where those of the trained model are other ones.
    """
    fields = {key: value for key, value in section.items() if key not in _OTHERS}
    trained = {key: fields[key] for key in _IDS if key in fields}
    if ids and trained and ids != trained:
        raise InputError(
            f"the tokenizers of {section['folder']} have {ids}, but its model has "
            f"{trained}; copy the model folder again"
        )
    sizes = dict(zip(_SIZES[1:], (source_size, target_size), strict=True))
    if source_size == target_size:
        sizes["vocabulary_size"] = source_size
    return config_class(section["kind"]).from_dict({**fields, **sizes, **ids})


def trained_decoding(folder: Path, section: Any, new_vocabulary: bool = False) -> Any:
    """The decoding section: that of a model folder, with what was given in its place.

    Args:
        folder: its path; a run that began before it went has a section of its own.
        section: as it was given.
        new_vocabulary: whether the folder's pieces are no longer there.
    """
    if not folder.exists() or not isinstance(section, Mapping):
        return section
    trained = _read(folder).decoding.changed()
    if new_vocabulary:
        trained = {key: trained[key] for key in trained if key not in _OF_PIECES}
    given = {key: value for key, value in section.items() if value is not None}
    return {**trained, **given}


def trained_tokenizer(folder: Path, section: Any) -> Any:
    """The tokenizer section for what a model folder holds.

    Args:
        folder: its path; a run that began before it went has a tokenizer of its own.
        section: as it was given.

    Raises:
        ValueError: where it asks for another tokenizer.
    """
    if not folder.exists() or not isinstance(section, Mapping):
        return section
    shared = len(set(_read(folder).tokenizers)) == 1
    keys = ("path",) if shared else ("source_path", "target_path")
    files = zip(keys, tokenizer_files(shared), strict=False)  # a shared one once
    trained = {key: str(folder / name) for key, name in files}
    if section not in ({}, trained, {**trained, "shared": shared}, {"shared": shared}):
        raise ValueError(
            f"the tokenizer is that of model.folder; remove the tokenizer, or set "
            f"model.{_NEW} to true"
        )
    return trained


def _check_keys(fields: Mapping[str, Any], kind: str) -> None:
    of_kind = _config_class(kind)
    keys = [*_OTHERS, *of_kind.model_fields]
    keys = [key for key in keys if key not in _SIZES + _IDS]
    for key in fields:
        if key in _SIZES + _IDS:
            mend = "; set tokenizer.vocabulary_size" if key in _SIZES else ""
            raise ValueError(
                f"model.{key} is decided by the tokenizer{mend or '; remove it'}"
            )
        if key not in keys and key not in of_kind.old_names:
            others = [k for k, config in KINDS.items() if key in config.model_fields]
            if others:
                raise ValueError(
                    f"unknown key model.{key}: it is one of kind {', '.join(others)}, "
                    f"and this model is of kind {kind}; remove it"
                )
            near = suggestion(str(key), keys, ["model"], _elsewhere())
            raise ValueError(f"unknown key model.{key}; {near}")


def _elsewhere() -> dict[str, list[str]]:
    """The paths of the keys of other sections."""
    found: dict[str, list[str]] = {}
    sections: dict[str, type[pydantic.BaseModel]] = {
        "tokenizer": TokenizerSection,
        "data": DataSection,
        "training": TrainingSection,
        "decoding": DecodingOptions,
    }
    for section, model in sections.items():
        for key, paths in (places(model, f"{section}.") or {}).items():
            found.setdefault(key, []).extend(paths)
    return found


def _read(folder: Path) -> Any:
    from keras_transformer.folder_config import read_config  # loads Keras

    return read_config(folder)


def _trained_fields(
    trained: TranslationConfig, fields: Mapping[str, Any]
) -> dict[str, Any]:
    """The config of a trained model; only its dropout may be another one."""
    before = trained.model_dump(exclude={*_SIZES, *_IDS})
    for key, value in fields.items():
        if value != before[key] and not key.endswith("dropout"):
            raise ValueError(
                f"model.{key} {value!r} is not that of the trained model.folder, "
                f"{before[key]!r}; remove it"
            )
    config = trained.from_dict({**trained.model_dump(), **fields})
    return config.model_dump(exclude={*_SIZES, *_IDS})
