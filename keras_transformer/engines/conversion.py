"""Models in the form of CTranslate2, converted once and kept in the user's cache.

An entry has the digest of all that it was made from as its name, and holds digests of
its own files, so that damage is noticed. It is written whole or not at all.
"""

import contextlib
import importlib.util
import json
import os
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import NamedTuple

import filelock

from keras_transformer.config import TranslationConfig
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import refuse_languages
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.export import process
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.output_folder import new_folder
from keras_transformer.files.plain_file import MOST_CONFIG_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.removal import remove
from keras_transformer.files.user_cache import cache_folder
from keras_transformer.folder_config import WEIGHTS
from keras_transformer.folder_config import Config
from keras_transformer.folder_config import read_config
from keras_transformer.folder_config import read_json

#: A number that grows when the same model would be converted to other files.
_VERSION = 1
_MODEL = "model"
_DIGESTS = "sha256.json"


class Conversion(NamedTuple):
    """A model folder as CTranslate2 has it: what it was, and where it is now."""

    export: Path  # as of `export --format ctranslate2`, without the decoding options
    config: TranslationConfig
    decoding: DecodingOptions
    languages: Languages | None  # the defaults being the pair of the export


def convert(
    folder: Path,
    options: Mapping[str, Any],
    *,
    source_language: str | None = None,
    target_language: str | None = None,
    has_flags: bool = True,
) -> Conversion:
    """Converts a model folder to CTranslate2, unless the cache has it.

    A process of its own does so, whose backend is that of `KERAS_BACKEND`: this one
    loads no Keras.

    Args:
        folder: the model folder.
        options: fields of `DecodingOptions`, in place of the model's own.
        source_language: of a multilingual model, in place of the folder's default.
        target_language: in the same way.
        has_flags: whether the caller's options can be changed, see `check_options`.

    Raises:
        InputError: where `ctranslate2` is not installed, or lacks an option or a part
            of the model, the folder is no model folder, or the cache cannot be written.
    """
    if importlib.util.find_spec("ctranslate2") is None:
        raise InputError(
            "the engine ctranslate2 needs the package ctranslate2, which is not "
            "installed; run pip install ctranslate2, or use the engine keras"
        )
    kind = read_json(folder).get("kind", "transformer")  # even of an unknown module
    if kind != "transformer":
        raise InputError(
            f"the engine ctranslate2 runs models of kind transformer, and this one is "
            f"{str(kind)[:100]}; use the engine keras"
        )
    config = read_config(folder)
    decoding = config.decoding.updated(options)
    check_options(decoding, has_flags)
    languages, codes = config.languages, {}
    if languages is None:
        refuse_languages(source_language, target_language)
    else:
        languages = languages.with_defaults(source_language, target_language)
        sides = "source_language", "target_language"
        pair = zip(sides, languages.pair(), strict=True)
        codes = {name: code for name, code in pair if code is not None}
    entry = cache_folder() / "ctranslate2" / _digest(folder, config, codes)
    if not _is_whole(entry):
        with _locked(entry):
            if not _is_whole(entry):  # no other process has written it meanwhile
                remove(entry)
                _write(entry, folder, codes)
    return Conversion(entry / _MODEL, config.model, decoding, languages)


@contextlib.contextmanager
def _locked(entry: Path) -> Iterator[None]:
    """A lock that one process holds, which may write an entry."""
    lock = filelock.FileLock(entry.with_name(f".{entry.name}.lock"))
    try:
        entry.parent.mkdir(parents=True, exist_ok=True)
        lock.acquire()
    except OSError as error:
        raise InputError(
            f"cannot write the cache {entry.parent}: {error.strerror}; set "
            f"XDG_CACHE_HOME to another folder, or use the engine keras"
        ) from None
    try:
        yield
    finally:
        lock.release()


def check_options(search: DecodingOptions, has_flags: bool = True) -> None:
    """Refuses options of a search that CTranslate2 has not.

    Args:
        search: the options.
        has_flags: whether there are flags for them; a server has the model folder's.

    Raises:
        InputError: naming them, with what turns them off.
    """
    if lacking := search.lacking(own_search=False):
        how = "give " + " ".join(OPTIONS[name].default_flag for name in lacking)
        if not has_flags:
            how = "take them out of decoding in the model folder's config.json"
        raise InputError(
            f"the engine ctranslate2 has no {', '.join(lacking)}; {how}, or use the "
            f"engine keras"
        )


def refuse_arguments(**given: bool) -> None:
    """Refuses arguments of a translation that CTranslate2 has not.

    Args:
        given: whether each is given, by its name.

    Raises:
        InputError: naming the first.
    """
    for name, is_given in given.items():
        if is_given:
            raise InputError(
                f"the engine ctranslate2 has no {name}; leave it out, or use the "
                f"engine keras"
            )


def _digest(folder: Path, config: Config, codes: Mapping[str, str]) -> str:
    """The digest of what a conversion depends on."""
    names = {WEIGHTS, *config.tokenizers}
    if config.has_known_words:
        names.add(KNOWN_WORDS)
    try:
        files = {name: sha256_of(plain_file(folder, name)) for name in sorted(names)}
    except OSError as error:
        raise InputError(
            f"cannot read {error.filename} ({error.strerror}); the folder is not "
            f"complete"
        ) from None
    keys = read_json(folder)
    del keys["decoding"]  # no conversion depends on it
    return sha256_of_json([_VERSION, keys, files, dict(codes)])


def _is_whole(entry: Path) -> bool:
    """Whether an entry has all its files, as they were written."""
    try:
        digests = plain_file(entry, _DIGESTS, MOST_CONFIG_BYTES).read_text("utf-8")
        expected = json.loads(digests)
        return bool(expected) and expected == _digests(entry / _MODEL)
    except (OSError, ValueError):
        return False


def _digests(folder: Path) -> dict[str, str]:
    """The digest of each file of a folder, by name."""
    return {path.name: sha256_of(path) for path in sorted(folder.iterdir())}


def _write(entry: Path, folder: Path, codes: Mapping[str, str]) -> None:
    defaults = {name: option.default for name, option in OPTIONS.items()}
    with new_folder(entry, "a converted model") as new:
        process.export_folder(
            "keras_transformer.export.ctranslate2",
            folder.resolve(),
            new / _MODEL,
            environment={"TF_CPP_MIN_LOG_LEVEL": "2", **os.environ},
            languages=codes,
            **defaults,
        )
        text = json.dumps(_digests(new / _MODEL))
        (new / _DIGESTS).write_text(text, encoding="utf-8")
