"""Loading of the engine for a folder."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.languages import refuse_languages
from keras_transformer.engines import EngineName
from keras_transformer.engines.choice import FITS
from keras_transformer.errors import InputError
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.limits import Limits


def load_engine(
    folder: str | Path,
    limits: Limits,
    *,
    engine: EngineName = EngineName.keras,
    before_keras: Callable[[], None] | None = None,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Engine:
    """The engine of a model folder, or of a folder of `export --format ctranslate2`.

    Args:
        folder: its path.
        limits: the limits of the server; the engine is compiled for its batches.
        engine: what runs a model folder, see `load_translator`; CTranslate2 has one
            pair of languages.
        before_keras: called before Keras is loaded.
        beam_size: the largest beam size; default: the model's.
        length_penalty: the alpha; default: the model's.
        source_language: of a multilingual model, for requests without one.
        target_language: in the same way.

    Raises:
        InputError: where the folder is neither, or incomplete, or a language is not
            known, or the engine lacks an option of the model.
    """
    options: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    if is_ctranslate2(folder):
        from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine

        refuse_languages(source_language, target_language)
        return CTranslate2Engine(folder, limits, **options)
    if engine != EngineName.keras:
        try:
            fast = _converted(
                Path(folder), limits, source_language, target_language, options
            )
        except InputError as error:
            if engine == EngineName.ctranslate2:
                raise
            print(f"engine: keras ({error})", file=sys.stderr, flush=True)
        else:
            why = f" ({FITS})" if engine == EngineName.auto else ""
            name = fast.info()["engine"]
            print(f"engine: {name}{why}", file=sys.stderr, flush=True)
            return fast
    if before_keras:
        before_keras()
    from keras_transformer.serving.translator_engine import TranslatorEngine
    from keras_transformer.translator import Translator

    translator = Translator.load(
        folder, source_language=source_language, target_language=target_language
    )
    return TranslatorEngine(translator, limits, **options)


def _converted(
    folder: Path,
    limits: Limits,
    source_language: str | None,
    target_language: str | None,
    options: dict[str, Any],
) -> Engine:
    """The engine of a model folder in CTranslate2."""
    from keras_transformer.engines.conversion import convert
    from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine

    is_greedy = options.get("beam_size") == 1
    conversion = convert(
        folder,
        {"top_beams": 1, **(GREEDY if is_greedy else {})},
        source_language=source_language,
        target_language=target_language,
        has_flags=False,
    )
    return CTranslate2Engine(
        conversion.export, limits, **options, decoding=conversion.decoding
    )


def is_ctranslate2(folder: str | Path) -> bool:
    """Whether the folder is an export to CTranslate2."""
    return (Path(folder) / "model.bin").is_file()
