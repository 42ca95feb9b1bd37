"""A translator for engines that run on many machines: Ray Data, Spark and their like.

`tutorials/many_machines/` has a program for each of them.
"""

from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.arguments import check_counts
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.engines import engine_name
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
        source_language: of a multilingual model; default: the model's.
        target_language: in the same way.
        engine: what runs the model in each process, see `load_translator`. The cache
            of converted models is that of each machine.
        split_sentences: translate each sentence of a line by itself, see
            `Translator.translate`.
        options: fields of `DecodingOptions`, such as `beam_size=1`, in place of the
            model's own. Of several hypotheses the first is given. Samples and messages
            count the lines of a batch, from 1.

    Call arguments:
        batch: columns, as `{name: array}`, as a DataFrame of pandas, or as a Table or
            RecordBatch of pyarrow; or texts, as an array, a Series or a list of
            strings. None stays None, and what pandas has for it becomes None.

    Returns:
        The same form: the columns with one more, or the translations.

    Raises:
        InputError: at once where there is no such option, or it has no such value;
            where a batch has another form or no such column, options do not go
            together, or a line is longer than the model can take.

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
        source_language: str | None = None,
        target_language: str | None = None,
        engine: str = "keras",
        split_sentences: bool = False,
        **options: Any,
    ) -> None:
        _check_options(options)
        check_counts(batch_tokens=batch_tokens, batch_size=batch_size)
        self.model_folder = str(model_folder)
        self.source_column = source_column
        self.target_column = target_column
        self.batch_tokens = batch_tokens
        self.batch_size = batch_size
        self.source_language = source_language
        self.target_language = target_language
        self.engine = engine_name(engine)
        self.split_sentences = split_sentences
        self.options = options
        self._translator: Any = None

    def __call__(self, batch: Any) -> Any:
        """Translates one batch."""
        if isinstance(batch, Mapping):
            found = self._column(batch[self._named(batch)])
            return {**batch, self.target_column: _array(found)}
        if isinstance(batch, np.ndarray):
            found = self._translations(batch.ravel().tolist())
            return _array(found).reshape(batch.shape)
        if hasattr(batch, "column_names"):  # of pyarrow
            found = self._column(batch[self._named(batch.column_names)])
            return _with_column(batch, self.target_column, found)
        if hasattr(batch, "columns"):  # of pandas
            found = self._column(batch[self._named(batch.columns)])
            return batch.assign(**{self.target_column: _array(found)})
        if hasattr(batch, "to_frame") and hasattr(batch, "index"):  # a Series
            found = _array(self._column(batch))
            return type(batch)(found, index=batch.index, name=batch.name)
        if isinstance(batch, Sequence) and not isinstance(batch, str | bytes):
            return self._translations(batch)
        raise InputError(
            f"a batch is {type(batch).__name__}, not columns or a list of texts; give "
            f"one of the forms that BatchTranslator names"
        )

    def make_predict_function(self) -> "BatchTranslator":
        """What Spark's `predict_batch_udf` calls once in each of its processes."""
        return self

    def __getstate__(self) -> dict[str, Any]:
        # The model stays where it is; another process loads its own.
        return {**self.__dict__, "_translator": None}

    def _named(self, columns: Iterable[Any]) -> str:
        """The name of the column of the text."""
        count = list(columns).count(self.source_column)
        if count != 1:
            raise InputError(
                f"a batch has the columns {', '.join(map(str, columns))}, but "
                f"{'several' if count else 'no'} {self.source_column!r}; name the "
                f"column of the text"
            )
        return self.source_column

    def _column(self, column: Any) -> list[str | None]:
        """The translations of an array of any library."""
        for name in ("to_pylist", "tolist"):  # of pyarrow; of NumPy and pandas
            if hasattr(column, name):
                return self._translations(getattr(column, name)())
        if isinstance(column, str):
            raise InputError(
                f"the column {self.source_column!r} is one string; give an array, or "
                f"a list of strings"
            )
        return self._translations(list(column))

    def _translations(self, values: Sequence[Any]) -> list[str | None]:
        texts = [_text(number, value) for number, value in enumerate(values, 1)]
        if self._translator is None:
            from keras_transformer.engines.choice import load_translator

            self._translator = load_translator(
                self.model_folder,
                engine=self.engine,
                source_language=self.source_language,
                target_language=self.target_language,
                **self.options,
            )
        found = self._translator.translate(
            ["" if text is None else text for text in texts],
            batch_size=self.batch_size,
            batch_tokens=self.batch_tokens,
            split_sentences=self.split_sentences,
            **self.options,
        )
        pairs = zip(texts, found, strict=True)
        return [None if text is None else translation for text, translation in pairs]


def _check_options(options: Mapping[str, Any]) -> None:
    """Refuses unknown options and wrong values before a process loads the model.

    Whether they go together depends on the model's own.
    """
    if "prefixes" in options:
        raise InputError(
            "prefixes belong to single lines, and a BatchTranslator has one set of "
            "options for all; give them to Translator.translate"
        )
    DecodingOptions.check_each(options)


def _text(number: int, value: Any) -> str | None:
    """A text, or None where there is none."""
    if value is None or isinstance(value, str):
        return value
    is_nan = isinstance(value, float | np.floating) and value != value
    if is_nan or type(value).__name__ == "NAType":  # pandas.NA equals nothing either
        return None
    raise InputError(
        f"line {number} of a batch is {type(value).__name__}, not text; name the "
        f"column of the text"
    )


def _with_column(table: Any, name: str, texts: list[str | None]) -> Any:
    """A Table or RecordBatch with a column more, or with another one of that name."""
    import pyarrow

    column = pyarrow.array(texts, pyarrow.string())
    if name in table.column_names:
        return table.set_column(table.column_names.index(name), name, column)
    return table.append_column(name, column)


def _array(texts: list[str | None]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array
