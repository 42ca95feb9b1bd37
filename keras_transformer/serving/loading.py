"""Loading of the engine for a folder."""

from pathlib import Path
from typing import Any

from keras_transformer.config.languages import refuse_languages
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.limits import Limits


def load_engine(
    folder: str | Path,
    limits: Limits,
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None,
    source_language: str | None = None,
    target_language: str | None = None,
) -> Engine:
    """The engine of a model folder, or of a folder of `export --format ctranslate2`.

    Args:
        folder: its path.
        limits: the limits of the server; the engine is compiled for its batches.
        beam_size: the largest beam size; default: the model's.
        length_penalty: the alpha; default: the model's.
        source_language: of a multilingual model, for requests without one.
        target_language: in the same way.

    Raises:
        InputError: where the folder is neither, or incomplete, or a language is not
            known.
    """
    options: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    if is_ctranslate2(folder):
        from keras_transformer.serving.ctranslate2_engine import CTranslate2Engine

        refuse_languages(source_language, target_language)
        return CTranslate2Engine(folder, limits, **options)
    from keras_transformer.serving.translator_engine import TranslatorEngine
    from keras_transformer.translator import Translator

    translator = Translator.load(
        folder, source_language=source_language, target_language=target_language
    )
    return TranslatorEngine(translator, limits, **options)


def is_ctranslate2(folder: str | Path) -> bool:
    """Whether the folder is an export to CTranslate2."""
    return (Path(folder) / "model.bin").is_file()
