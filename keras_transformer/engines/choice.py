"""Choice of the engine that runs a model folder: Keras, or CTranslate2."""

import sys
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING
from typing import Any

from keras_transformer.engines import EngineName
from keras_transformer.engines import engine_name
from keras_transformer.engines.conversion import refuse_arguments
from keras_transformer.engines.ctranslate2_translator import CTranslate2Translator
from keras_transformer.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.translator import Translator

#: Why `auto` takes CTranslate2.
FITS = "it is installed, and has all that is asked for"


def load_translator(
    folder: str | Path,
    *others: str | Path,
    engine: str = "keras",
    source_language: str | None = None,
    target_language: str | None = None,
    lacking: Mapping[str, bool] | None = None,
    before_keras: Callable[[], None] | None = None,
    **options: Any,
) -> "Translator | CTranslate2Translator":
    """The translator of a model folder, on the engine that is asked for.

    Args:
        folder: its path.
        others: further members of an ensemble, see `Translator.load`.
        engine: `"keras"`, `"ctranslate2"` (see `CTranslate2Translator`), or `"auto"`:
            CTranslate2 where it is installed and has what is asked for, else Keras. It
            says on standard error which it took, and why.
        source_language: of a multilingual model, in place of the folder's default.
        target_language: in the same way.
        lacking: whether something is asked for that CTranslate2 has not, by its name
            for messages.
        before_keras: called before Keras is loaded, such as to choose its backend.
        options: fields of `DecodingOptions`, the defaults of `translate` in place of
            the model's own.

    Returns:
        A `Translator`, or a `CTranslate2Translator`.

    Raises:
        InputError: where the engine is not known or lacks something that is asked for,
            or the folder is no model folder.

    Example:

    >>> import keras_transformer as kt
    >>> translator = kt.load_translator("models/en-de", engine="auto")  # doctest: +SKIP
    engine: ctranslate2, cpu float32 (it is installed, and has all that is asked for)
    """
    chosen = engine_name(engine)
    if chosen != EngineName.keras:
        try:
            refuse_arguments(ensemble=bool(others), **(lacking or {}))
            fast = CTranslate2Translator(
                folder,
                source_language=source_language,
                target_language=target_language,
                **options,
            )
        except InputError as error:
            if chosen == EngineName.ctranslate2:
                raise
            print(f"engine: keras ({error})", file=sys.stderr, flush=True)
        else:
            if chosen == EngineName.auto:
                print(f"engine: {fast.name} ({FITS})", file=sys.stderr, flush=True)
            return fast
    if before_keras:
        before_keras()
    from keras_transformer.translator import Translator

    translator = Translator.load(
        folder,
        *others,
        source_language=source_language,
        target_language=target_language,
    )
    translator.decoding = translator.decoding.updated(options)
    return translator
