"""Choice of the engine that a folder needs."""

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
        limits: of the server; the batches that the engine is compiled for.
        beam_size: the largest of the search; default: the model's.
        length_penalty: alpha; default: the model's.

    Raises:
        InputError: where the folder is neither, or not whole.
    """
    options: dict[str, Any] = {"beam_size": beam_size, "length_penalty": length_penalty}
    if is_ctranslate2(folder):
        from keras_transformer.serving.ctranslate2.engine import CTranslate2Engine

        return CTranslate2Engine(folder, limits, **options)
    from keras_transformer.serving.translator_engine import TranslatorEngine
    from keras_transformer.translator import Translator

    return TranslatorEngine(Translator.load(folder), limits, **options)


def is_ctranslate2(folder: str | Path) -> bool:
    """Whether the folder is one of CTranslate2's."""
    return (Path(folder) / "model.bin").is_file()
