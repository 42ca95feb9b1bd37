"""A translator for engines that run on many machines: Ray Data, Spark and their like.

`tutorials/many_machines/` has a program for each of them.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.data.static_shapes import batches_by_tokens
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
        beam_size: default: the model's.
        length_penalty: default: the model's.
        batch_tokens: the most source tokens translated at once, padding included; a
            longer line is translated alone.
        batch_size: the most lines translated at once.

    Call arguments:
        batch: columns, `{name: array}`; or texts, an array or a list of strings. None
            stays None.

    Returns:
        The columns with one more; or the translations, as array or list.

    Raises:
        InputError: where there is no such column, or a line is longer than the model
            can take.
    """

    def __init__(
        self,
        model_folder: str | Path,
        *,
        source_column: str = "source",
        target_column: str = "translation",
        beam_size: int | None = None,
        length_penalty: float | None = None,
        batch_tokens: int = 8192,
        batch_size: int = 64,
    ) -> None:
        self.model_folder = str(model_folder)
        self.source_column = source_column
        self.target_column = target_column
        self.beam_size = beam_size
        self.length_penalty = length_penalty
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
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
        translator = self._translator
        found: list[str | None] = [None if text is None else "" for text in texts]
        filled = [i for i, text in enumerate(texts) if text is not None]
        lengths = translator.count_tokens(
            [texts[i] for i in filled], numbers=[i + 1 for i in filled]
        )
        for rows in batches_by_tokens(lengths, self.batch_tokens, self.batch_size):
            places = [filled[row] for row in rows]
            translations = translator.translate(
                [texts[i] for i in places],
                beam_size=self.beam_size,
                length_penalty=self.length_penalty,
                batch_size=len(places),
            )
            for i, translation in zip(places, translations, strict=True):
                found[i] = translation
        return found


def _array(texts: list[str | None]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
