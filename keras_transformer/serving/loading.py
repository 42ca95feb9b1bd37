"""Loading of the engine for a folder."""

from pathlib import Path
from typing import Any

from keras_transformer.serving.engine import Engine
from keras_transformer.serving.limits import Limits


def load_engine(
    folder: str | Path,
    limits: Limits,
    *,
    beam_size: int | None = None,
    length_penalty: float | None = None,
) -> Engine:
    """The engine of a model folder, or of a folder of `export --format ctranslate2`.

    Args:
        folder: its path.
        limits: the limits of the server; the engine is compiled for its batches.
        beam_size: the largest beam size; default: the model's.
        length_penalty: the alpha; default: the model's.

    Raises:
        InputError: where the folder is neither, or incomplete.
    """
    options: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    if is_ctranslate2(folder):
        from keras_transformer.serving.ctranslate2.engine import CTranslate2Engine

        return CTranslate2Engine(folder, limits, **options)
    from keras_transformer.serving.translator_engine import TranslatorEngine
    from keras_transformer.translator import Translator

    return TranslatorEngine(Translator.load(folder), limits, **options)


def is_ctranslate2(folder: str | Path) -> bool:
    """Whether the folder is an export to CTranslate2."""
    return (Path(folder) / "model.bin").is_file()
