"""The model folder: all that is needed to translate, on any backend.

`config.json`, `model.weights.h5`, `tokenizer.model` (or `source.model` and
`target.model`), `README.md`, and `known_words.json` where the words that the model has
learned are known. `config.json` has a section `languages` where the model translates
between several, and a section `about` where its name, languages or text are known.

A folder may come from anybody. Reading one unpickles and runs nothing, opens only plain
files that lie in it, and takes no more memory than a few times their size, whatever
they declare.
"""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_transformer import backends
from keras_transformer.config import TranslationConfig
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_bounds import load_within_bounds
from keras_transformer.data.tokenizer_files import TOKENIZER_FILES
from keras_transformer.data.tokenizer_files import tokenizer_files
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.output_folder import new_folder
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import data_bytes
from keras_transformer.files.plain_file import plain_file
from keras_transformer.folder_config import FORMAT_VERSION
from keras_transformer.folder_config import LANGUAGES_VERSION
from keras_transformer.folder_config import WEIGHTS
from keras_transformer.folder_config import read_config
from keras_transformer.folder_config import read_json
from keras_transformer.layers import initial_values
from keras_transformer.models.kinds import kind_of
from keras_transformer.models.kinds import model_class
from keras_transformer.models.kinds import refuse_int8
from keras_transformer.models.kinds import refuse_unrestorable
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.weights import is_finite
from keras_transformer.models.weights import lazy_values
from keras_transformer.models.weights import plain_weights
from keras_transformer.models.weights import stored_weights
from keras_transformer.models.weights import write_arrays

_DIGEST = "weights_sha256"  # a key of `config.json`, as the next
_KNOWN_WORDS = "known_words"
_LANGUAGES = "languages"
_ABOUT = "about"
_FEWEST_BYTES = 2  # of a weight
_WEIGHTS_SLACK = 2**20  # bytes that a weights file may have for other things, or lack


class Weights(NamedTuple):
    """The weights of a model that is written without being made."""

    config: TranslationConfig
    arrays: Mapping[str, np.ndarray]  # float32, each asked for once


class Contents(NamedTuple):
    """What a model folder holds."""

    model: Any  # a TranslationModel; to be written, also `Weights`
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    decoding: DecodingOptions
    known_words: KnownWords | None = None
    languages: Languages | None = None
    about: About = About()


def write(folder: str | Path, contents: Contents, card: str) -> None:
    """Writes a model folder under a temporary name and renames it.

    Raises:
        InputError: where the folder holds something else, or cannot be written, or the
            model is of a subclass that would not come back from it.
    """
    if not isinstance(contents.model, Weights):
        refuse_unrestorable(contents.model, "a model folder holds")
        refuse_int8(contents.model, "a model folder holds")
    markers = ("config.json", WEIGHTS)
    others = ("README.md", KNOWN_WORDS, *TOKENIZER_FILES)
    with new_folder(folder, "a model folder", markers, others) as new:
        _write_files(new, contents, card)


def read(folder: str | Path, precision: str | None = None) -> Contents:
    """Reads what `write` wrote.

    Args:
        folder: its path.
        precision: the dtype policy of the model; default: that of Keras.

    Raises:
        InputError: where a file is missing, cut off, foreign or not what it declares.
    """
    folder = Path(folder)
    config = read_config(folder)
    sizes = config.model.source_vocabulary_size, config.model.target_vocabulary_size
    _check_size(config.model, plain_file(folder, WEIGHTS))
    source_tokenizer, target_tokenizer = (
        load_within_bounds(folder, name, size)
        for name, size in zip(config.tokenizers, sizes, strict=True)
    )
    known_words = KnownWords.load(folder) if config.has_known_words else None
    with initial_values.left_out():
        model = model_class(config.kind)(config.model, dtype=precision)
    load_weights(folder, model)
    return Contents(
        model,
        source_tokenizer,
        target_tokenizer,
        config.decoding,
        known_words,
        config.languages,
        config.about,
    )


def load_weights(folder: Path, model: TranslationModel) -> None:
    """Assigns a model folder's weights to a model, one at a time.

    Args:
        folder: its path.
        model: that is to have them. Where this fails, it has a part of them.

    Raises:
        InputError: where they are missing, cut off, foreign, no finite numbers, of
            other shapes than the model's, or not those that the folder was written
            with.
    """
    path = plain_file(folder, WEIGHTS)
    variables = plain_weights(model)
    shapes = {name: tuple(weight.shape) for name, weight in variables.items()}
    num_bytes = 0
    with stored_weights(path, shapes) as arrays:
        # The largest first, while the memory of others is not used yet.
        for name in sorted(shapes, key=lambda name: -math.prod(shapes[name])):
            values = arrays[name]
            if not is_finite(values):
                raise InputError(
                    f"{path}: the weight {name!r} holds numbers that are not finite; "
                    f"train again, or copy the model folder again"
                )
            variables[name].assign(backends.of_numpy(values))
            num_bytes += values.nbytes
    model.clear_adapters()
    _check_digest(folder, path, num_bytes)


def card(folder: str | Path) -> str:
    """The text of a folder's README.md; none where there is no such file."""
    path = plain_file(Path(folder), "README.md", MOST_BYTES)
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _check_size(config: TranslationConfig, path: Path) -> None:
    """Refuses a config that declares far more than its weights file holds.

    Before a model of that size is made; small differences are left to `load_weights`,
    which can say what is missing.
    """
    try:
        held = data_bytes(path)
    except OSError:
        raise InputError(f"{path} is missing; the folder is not complete") from None
    if _FEWEST_BYTES * config.num_weights > held + _WEIGHTS_SLACK:
        raise InputError(
            f"{path} holds {held} bytes, but its config declares {config.num_weights} "
            f"weights; use the file that belongs to this config"
        )


def _check_digest(folder: Path, path: Path, expected_bytes: int) -> None:
    """Refuses the weights of another model of the same architecture."""
    expected = read_json(folder).get(_DIGEST)  # folders of before have none
    if expected is None:
        return
    # What HDF5 adds is little; gigabytes that nothing names are not read for a digest.
    is_bloated = path.stat().st_size > 2 * expected_bytes + _WEIGHTS_SLACK
    if is_bloated or expected != sha256_of(path):
        raise InputError(
            f"{path} holds other weights than those that {folder / 'config.json'} was "
            f"written with; copy the model folder again"
        )


def _write_files(folder: Path, contents: Contents, card: str) -> None:
    source, target = contents.source_tokenizer, contents.target_tokenizer
    names = tokenizer_files(shared=source.content == target.content)
    source.save(folder / names[0])
    target.save(folder / names[1])
    given = isinstance(contents.model, Weights)
    arrays = contents.model.arrays if given else lazy_values(contents.model)
    write_arrays(arrays, folder / WEIGHTS)
    config = {
        "format_version": FORMAT_VERSION,
        "kind": contents.model.config.kind if given else kind_of(contents.model),
        "model": contents.model.config.model_dump(),
        "tokenizer": {"source": names[0], "target": names[1]},
        _DIGEST: sha256_of(folder / WEIGHTS),
        # These two for versions that know no others.
        "decoding": {
            **contents.decoding.changed(),
            "beam_size": contents.decoding.beam_size,
            "length_penalty": contents.decoding.length_penalty,
        },
    }
    if contents.known_words is not None:
        text = contents.known_words.to_json()
        (folder / KNOWN_WORDS).write_text(text, encoding="utf-8")
        config[_KNOWN_WORDS] = KNOWN_WORDS
    if contents.languages is not None:
        contents.languages.check(contents.model.config)
        config["format_version"] = LANGUAGES_VERSION
        config[_LANGUAGES] = contents.languages.model_dump(exclude_defaults=True)
    if about := contents.about.model_dump(exclude_none=True):
        config[_ABOUT] = about
    text = json.dumps(config, indent=2) + "\n"
    (folder / "config.json").write_text(text, encoding="utf-8")
    (folder / "README.md").write_text(card, encoding="utf-8")
