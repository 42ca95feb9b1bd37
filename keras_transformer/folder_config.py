"""The `config.json` of a model folder: what the folder holds, read without Keras."""

import json
from pathlib import Path
from typing import Any
from typing import NamedTuple

from keras_transformer.config import TranslationConfig
from keras_transformer.config import config_class
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import MOST_CONFIG_BYTES
from keras_transformer.files.plain_file import plain_file

FORMAT_VERSION = 1
#: Of folders with languages, which a version that knows none would leave out unseen.
LANGUAGES_VERSION = 2
WEIGHTS = "model.weights.h5"
_KNOWN_WORDS = "known_words"  # a key, as the next
_LANGUAGES = "languages"
_ABOUT = "about"
_FOREIGN = ("*.npz", "*.safetensors", "*.intgemm*.bin*", "pytorch_model*.bin")


class Config(NamedTuple):
    """What the `config.json` of a model folder says."""

    kind: str  # of this package, or `module.Class`
    model: TranslationConfig
    tokenizers: list[str]  # the files of source and target
    decoding: DecodingOptions
    has_known_words: bool
    languages: Languages | None
    about: About


def read_config(folder: Path) -> Config:
    """What the `config.json` of a model folder of this format says.

    Raises:
        InputError: where it is missing, foreign, or no plain file of the folder.
    """
    path = folder / "config.json"
    config = read_json(folder)
    try:
        names = [config["tokenizer"][side] for side in ("source", "target")]
        decoding = {
            **config["decoding"],
            "beam_size": int(config["decoding"]["beam_size"]),
            "length_penalty": float(config["decoding"]["length_penalty"]),
        }
        fields = dict(config["model"].items())
    except (AttributeError, KeyError, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            f"{path} lacks or misspells {error}; copy the model folder again"
        ) from None
    # A folder that names no kind is a Transformer, for ever.
    kind = config.get("kind", "transformer")
    try:
        of_kind = config_class(kind)
    except InputError as error:
        raise InputError(f"{path}: kind {error}") from None
    for name in names:
        if name not in TOKENIZER_FILES:
            raise InputError(
                f"{path} names the tokenizer {name!r}, which no model folder has; copy "
                f"the model folder again"
            )
    known_words = config.get(_KNOWN_WORDS)  # folders of before have none
    if known_words not in (None, KNOWN_WORDS):
        raise InputError(
            f"{path} names the known words {str(known_words)[:100]!r}, which no model "
            f"folder has; copy the model folder again"
        )
    _check_numbers(path, fields)
    try:
        model_config = of_kind.from_dict(fields)
        options = DecodingOptions.of(decoding, "decoding")
        languages = _languages(config, model_config)
        about = _about(config)
    except (InputError, TypeError) as error:
        raise InputError(f"{path}: {error}") from None
    has_known_words = known_words is not None
    return Config(kind, model_config, names, options, has_known_words, languages, about)


def digest_of(folder: Path, with_about: bool = False) -> str:
    """The SHA-256 of what a model folder translates by, wherever it is.

    Args:
        folder: its path.
        with_about: whether what the folder tells of its model counts, as it did in
            versions before.

    Raises:
        InputError: where it is no model folder, or a file of it cannot be read.
    """
    content = read_json(folder)
    names = (WEIGHTS, *TOKENIZER_FILES, *(["config.json"] if with_about else []))
    files = [plain_file(folder, name) for name in names]
    try:
        digests = {file.name: sha256_of(file) for file in files if file.exists()}
        if not with_about:
            content.pop(_ABOUT, None)
            digests["config"] = sha256_of_json(content)
    except OSError as error:
        raise InputError(
            f"cannot read {error.filename}: {error.strerror}; copy the model folder "
            f"again"
        ) from None
    return sha256_of_json(digests)


def _about(config: dict[str, Any]) -> About:
    """The section `about`, without keys of later versions, which nothing needs."""
    section = config.get(_ABOUT)
    if isinstance(section, dict):
        section = {key: section[key] for key in About.model_fields if key in section}
    return About() if section is None else About.of(section)


def _languages(
    config: dict[str, Any], model_config: TranslationConfig
) -> Languages | None:
    """The section `languages`, which folders of one pair of languages have not."""
    if (section := config.get(_LANGUAGES)) is None:
        return None
    languages = Languages.of(section)
    languages.check(model_config)
    return languages


def import_command(source: Path) -> str:
    """What to do with a folder or file of another toolkit, for a message."""
    return f"run keras-transformer import {source} --output FOLDER, and give FOLDER"


def read_json(folder: Path) -> dict[str, Any]:
    """The keys of a `config.json` of a version that is known, not checked further.

    Args:
        folder: its path.

    Raises:
        InputError: where it is missing, foreign, not JSON, or no plain file.
    """
    path = plain_file(folder, "config.json", MOST_CONFIG_BYTES)
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        if any(folder.glob("*/saved_model.pb")):  # of a version
            raise InputError(
                f"{folder} is a SavedModel, for TF Serving; give the model folder that "
                f"it was exported from"
            ) from None
        if (folder / "averaged").is_dir():
            raise InputError(
                f"{folder} is a run folder; give the model folder in it, "
                f"{folder / 'averaged'}"
            ) from None
        if any(next(folder.glob(form), None) for form in _FOREIGN):
            raise InputError(
                f"{folder} is a folder of another toolkit; {import_command(folder)}"
            ) from None
        raise InputError(
            f"{folder} is not a model folder: cannot read {path.name} "
            f"({error.strerror}); give the folder that training wrote"
        ) from None
    except (RecursionError, ValueError):
        raise InputError(f"{path} is not JSON, or is cut off; copy it again") from None
    version = config.get("format_version") if isinstance(config, dict) else None
    if version is None and (folder / "model.bin").is_file():
        raise InputError(
            f"{folder} is a model of CTranslate2; give the model folder that it was "
            f"exported from, or {import_command(folder)}"
        )
    if version is None and isinstance(config, dict) and "model_type" in config:
        raise InputError(
            f"{folder} is a folder of another toolkit, a model of the type "
            f"{str(config['model_type'])[:100]!r}; {import_command(folder)}"
        )
    if version not in (FORMAT_VERSION, LANGUAGES_VERSION):
        raise InputError(
            f"{path} has format_version {version!r}, but this version reads "
            f"{FORMAT_VERSION} and {LANGUAGES_VERSION}; update keras-transformer, or "
            f"check the folder"
        )
    return config


def _check_numbers(path: Path, fields: dict[str, Any]) -> None:
    """Refuses numbers that no model has, before anything is made from them."""
    large = [n for n, v in fields.items() if isinstance(v, int) and abs(v) >= 2**31]
    if large:
        raise InputError(
            f"{path}: {large[0]} is too large; copy the model folder again"
        )
