"""Model folders given on the command line: checked and loaded."""

import functools
import sys
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from keras_transformer.cli import backend
from keras_transformer.cli import progress
from keras_transformer.engines import EngineName
from keras_transformer.errors import InputError
from keras_transformer.waiting import waiting

#: Ends of the names of files that can be imported.
_FOREIGN = (".npz", ".bin", ".bin.gz", ".argosmodel", ".safetensors")

if TYPE_CHECKING:
    from keras_transformer.engines import ctranslate2_translator
    from keras_transformer.translator import Translator


def load(
    folder: Path,
    *others: Path,
    source_language: str | None = None,
    target_language: str | None = None,
    imports: Sequence[str] = (),
) -> "Translator":
    """The translator of a model folder, or of several as an ensemble.

    `imports` are the modules of `--import`.
    """
    _check(folder, *others)
    backend.activate(imports=imports)
    with waiting("loading the backend", progress.say):
        backend.load_keras()
        from keras_transformer.translator import Translator

    codes = {"source_language": source_language, "target_language": target_language}
    set_codes = {name: code for name, code in codes.items() if code is not None}
    with waiting(f"loading {folder}", progress.say):
        return Translator.load(folder, *others, **set_codes)


def load_on(
    engine: EngineName,
    folder: Path,
    *others: Path,
    source_language: str | None,
    target_language: str | None,
    imports: Sequence[str],
    lacking: Mapping[str, bool],
    decoding: Mapping[str, Any],
) -> "Translator | ctranslate2_translator.CTranslate2Translator":
    """The translator of `load` on an engine; see `load_translator`."""
    if engine is EngineName.keras:
        return load(
            folder,
            *others,
            source_language=source_language,
            target_language=target_language,
            imports=imports,
        )
    _check(folder, *others)
    from keras_transformer.engines.choice import load_translator
    from keras_transformer.engines.ctranslate2_translator import CTranslate2Translator

    translator = load_translator(
        folder,
        *others,
        engine=engine,
        source_language=source_language,
        target_language=target_language,
        lacking=lacking,
        before_keras=functools.partial(backend.activate, imports=imports),
        **decoding,
    )
    if engine is not EngineName.auto and isinstance(translator, CTranslate2Translator):
        print(f"engine: {translator.name}", file=sys.stderr, flush=True)
    return translator


def _check(*folders: Path) -> None:
    for path in folders:
        check(path, "a model folder")


def check(path: Path, kind: str) -> None:
    """Refuses a path that is not a folder, before the backend loads."""
    if path.is_file() and path.name.endswith(_FOREIGN):
        raise InputError(
            f"{path} is a file of another toolkit; run keras-transformer import {path} "
            f"--output FOLDER, and give FOLDER"
        )
    if not path.is_dir():
        raise InputError(f"there is no folder {path}; give {kind} that training wrote")
