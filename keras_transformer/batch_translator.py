"""A translator for engines that run on many machines: Ray Data, Spark and their like.

`tutorials/many_machines/` has a program for each of them.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.config import nearest
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.errors import InputError


class BatchTranslator:
    """Batches of text in, the same with translations out; each line as if alone.

    It is small to send around: what it carries is the path of the model folder, which
    every machine must see. A process loads the model when it translates its first
    batch, on the backend of its own `KERAS_BACKEND`.

    Batches may have any size. Lines of similar length are translated together, as many
    as fit into `batch_tokens`; batches of a few thousand lines waste little padding.

    Ray Data takes the class and keeps one model in each worker:

        rows.map_batches(
            BatchTranslator,
            fn_constructor_kwargs={"model_folder": "models/en-de"},
            batch_size=2048,
            concurrency=2,
        )

    Spark takes a function that makes the model, and keeps what it made:

        translate = predict_batch_udf(
            BatchTranslator("models/en-de").make_predict_function,
            return_type=StringType(),
            batch_size=2048,
        )
        frame.withColumn("translation", translate("source"))

    Args:
        model_folder: its path; an absolute one where machines differ in their working
            directory.
        source_column: of a batch of columns, the text.
        target_column: of a batch of columns, the translations that are added.
        batch_tokens: the most source tokens translated at once, padding included; a
            longer line is translated alone.
        batch_size: the most lines translated together.
        options: fields of `DecodingOptions`, such as `beam_size=1`, in place of the
            model's own. Of several hypotheses the first is given. Samples and messages
            count the lines of a batch, from 1.

    Call arguments:
        batch: columns, `{name: array}`; or texts, an array or a list of strings. None
            stays None.

    Returns:
        The columns with one more; or the translations, as array or list.

    Raises:
        InputError: at once where there is no such option; where there is no such
            column, options do not go together, or a line is longer than the model can
            take.

    Example:

    >>> import keras_transformer as kt
    >>> translate = kt.BatchTranslator("models/en-de", beam_size=8, long_lines="split")
    >>> translate.options
    {'beam_size': 8, 'long_lines': 'split'}
    """

    def __init__(
        self,
        model_folder: str | Path,
        *,
        source_column: str = "source",
        target_column: str = "translation",
        batch_tokens: int = 8192,
        batch_size: int = 64,
        **options: Any,
    ) -> None:
        _check_names(options)
        self.model_folder = str(model_folder)
        self.source_column = source_column
        self.target_column = target_column
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
        self.options = options
        self._translator = None

    def __call__(self, batch: Any) -> Any:
        """Translates one batch."""
        if isinstance(batch, Mapping):
            if self.source_column not in batch:
                raise InputError(
                    f"a batch has the columns {', '.join(map(str, batch))}, but no "
                    f"{self.source_column!r}; name the column of the text"
                )
            texts = list(batch[self.source_column])
            return {**batch, self.target_column: _array(self._translations(texts))}
        if isinstance(batch, np.ndarray):
            texts = batch.ravel().tolist()
            return _array(self._translations(texts)).reshape(batch.shape)
        return self._translations(list(batch))

    def make_predict_function(self) -> "BatchTranslator":
        """What Spark's `predict_batch_udf` calls once in each of its processes."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The model stays where it is; another process loads its own.
        return {**self.__dict__, "_translator": None}

    def _translations(self, texts: Sequence[str | None]) -> list[str | None]:
        if self._translator is None:
            from keras_transformer.translator import Translator

            self._translator = Translator.load(self.model_folder)
        found = self._translator.translate(
            ["" if text is None else text for text in texts],
            batch_size=self.batch_size,
            batch_tokens=self.batch_tokens,
            **self.options,
        )
        pairs = zip(texts, found, strict=True)
        return [None if text is None else translation for text, translation in pairs]


def _check_names(options: Mapping[str, Any]) -> None:
    """Refuses what is no option before any process loads the model."""
    if "prefixes" in options:
        raise InputError(
            "prefixes belong to single lines, and a BatchTranslator has one set of "
            "options for all; give them to Translator.translate"
        )
    fields = DecodingOptions.model_fields
    for name in options:
        if name not in fields:
            raise InputError(
                f"unknown option {name}; did you mean {nearest(name, fields)!r}?"
            )


def _array(texts: list[str | None]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
