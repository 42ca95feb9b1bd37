"""Strings to strings in CTranslate2: what `Translator` is for Keras; needs no Keras."""

import dataclasses
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.arguments import check_counts
from keras_transformer.arguments import check_texts
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import direction_of
from keras_transformer.engines import export_folder
from keras_transformer.engines.conversion import check_options
from keras_transformer.engines.conversion import convert
from keras_transformer.engines.conversion import refuse_arguments
from keras_transformer.engines.library import Library
from keras_transformer.errors import InputError
from keras_transformer.processors import num_threads
from keras_transformer.translation.alignment import aligned
from keras_transformer.translation.hypothesis import NOTHING_LEFT
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import empty
from keras_transformer.translation.hypothesis import join
from keras_transformer.translation.hypothesis import regrouped
from keras_transformer.translation.sentence import Sentence
from keras_transformer.translation.source_lines import Codes
from keras_transformer.translation.source_lines import SourceLines
from keras_transformer.translation.source_lines import directions_of_lines
from keras_transformer.translation.source_lines import warn
from keras_transformer.translation.static_shapes import batches_by_length
from keras_transformer.translation.static_shapes import batches_by_tokens


class CTranslate2Translator:
    """A model folder that CTranslate2 runs, with what `Translator` has.

    The first use of a model converts it, in a process of its own; it is kept in the
    user's cache (`~/.cache/keras-transformer/ctranslate2`) under its digest. Texts are
    those of `Translator`, but for beam searches in which CTranslate2 stops before a
    better hypothesis has ended: `Library` has its rules.

    Args:
        folder: the model folder, of any backend.
        source_language: of a multilingual model, in place of the folder's default.
        target_language: in the same way.
        options: fields of `DecodingOptions`, in place of the model's own.

    Raises:
        InputError: where `ctranslate2` is not installed, or lacks an option or a part
            of the model (it is named), or the folder is no model folder.

    Example:

    >>> import keras_transformer as kt
    >>> translator = kt.CTranslate2Translator("models/en-de")  # doctest: +SKIP
    >>> translator.translate(["A man sleeps."])  # doctest: +SKIP
    ['Ein Mann schläft.']
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        source_language: str | None = None,
        target_language: str | None = None,
        **options: Any,
    ) -> None:
        conversion = convert(
            Path(folder),
            options,
            source_language=source_language,
            target_language=target_language,
        )
        self.languages = conversion.languages
        self.decoding = conversion.decoding
        self._config = conversion.config
        contents = export_folder.read(conversion.export)
        self.tokenizer, self.target_tokenizer = contents.source, contents.target
        self.known_words = contents.known_words
        self._extra_length = contents.description.limits.extra_length
        self._start_id = contents.description.ids.start
        self._lines = SourceLines(
            self.tokenizer,
            self.target_tokenizer,
            self._config,
            contents.description.about.source_language,
        )
        # Workers of one thread are faster than one worker of several.
        self._workers = num_threads()
        self._library = Library(folder, contents, workers=self._workers)

    @property
    def attends(self) -> bool:
        """Whether there is attention to the source, and so alignments."""
        return True

    @property
    def name(self) -> str:
        """The library, the device and the precision."""
        return self._library.name

    def translate(
        self,
        lines: Sequence[str],
        *,
        source_language: Codes = None,
        target_language: Codes = None,
        prefixes: Sequence[str] | None = None,
        batch_size: int = 64,
        batch_tokens: int | None = None,
        return_details: bool = False,
        return_token_scores: bool = False,
        return_alignments: bool = False,
        return_attention_weights: bool = False,
        first_line: int = 1,
        split_sentences: bool = False,
        **options: Any,
    ) -> list[str] | list[list[Hypothesis]]:
        """The translation of each line, in order, as `Translator.translate` gives it.

        Args:
            lines: one sentence each.
            source_language: of a multilingual model, see `Translator.translate`.
            target_language: in the same way.
            prefixes: refused, as the library scores them.
            batch_size: the most lines of a batch.
            batch_tokens: the most source tokens of a batch, padding included; a longer
                line is translated alone. Default: any number.
            return_details: give hypotheses, best first, instead of strings.
            return_token_scores: with `return_details`, fill `token_scores`.
            return_alignments: with `return_details`, fill `alignment`.
            return_attention_weights: refused: the library has those of one layer.
            first_line: the number of the first line, for messages.
            split_sentences: see `Translator.translate`.
            options: fields of `DecodingOptions`, in place of the translator's own.

        Warns:
            UserWarning: of each line that is cut, under `long_lines="truncate"`.

        Raises:
            InputError: where arguments are not right or do not go together, CTranslate2
                lacks one (it is named), a line is too long, or the options leave no
                translation.
        """
        check_counts(batch_size=batch_size, first_line=first_line)
        if batch_tokens is not None:
            check_counts(batch_tokens=batch_tokens)
        refuse_arguments(
            prefixes=prefixes is not None, attention=return_attention_weights
        )
        search = self.decoding.updated(options)
        check_options(search)
        search = search.with_ids(self.target_tokenizer.ids_of)
        check_texts(lines=lines)
        around = self._directions(source_language, target_language, lines, search)
        pieces, cuts = self._lines.sentences(
            lines, None, first_line, search, around, split=split_sentences
        )
        warn(cuts)
        if return_alignments:
            self.tokenizer.require_words()
            self.target_tokenizer.require_words()
        sentences = [sentence for line in pieces for _, sentence in line]
        rows = self._search(
            sentences,
            search,
            batch_size,
            batch_tokens,
            attention=return_details and return_alignments,
        )
        for sentence, row in zip(sentences, rows, strict=True):
            if not row:
                raise InputError(f"{sentence.name}: {NOTHING_LEFT}")
        if return_details and return_token_scores:
            rows = self._with_scores(sentences, rows)
        if return_details and return_alignments:
            texts = [part.text for line in pieces for part, _ in line]
            rows = self._with_alignments(texts, sentences, rows)
        joined = [
            join(parts, [part for part, _ in line])
            if line
            else [empty(return_token_scores, return_alignments)]
            for parts, line in zip(regrouped(rows, pieces), pieces, strict=True)
        ]
        return joined if return_details else [row[0].text for row in joined]

    def _directions(
        self,
        source_language: Codes,
        target_language: Codes,
        lines: Sequence[str],
        search: DecodingOptions,
    ) -> list[Direction]:
        """The direction of each line."""
        directions = directions_of_lines(
            source_language,
            target_language,
            len(lines),
            self.languages,
            self._config,
            search.forced_start,
        )
        for direction in directions:
            if direction.start_id != self._start_id:
                raise InputError(
                    f"the engine ctranslate2 has loaded another target_language than "
                    f"{direction.target_language!r}; load the model with that one"
                )
        return directions

    def _search(
        self,
        sentences: Sequence[Sentence],
        search: DecodingOptions,
        batch_size: int,
        batch_tokens: int | None,
        attention: bool,
    ) -> list[list[Hypothesis]]:
        """The hypotheses of each sentence; batches run at once, in threads."""
        lengths = [len(sentence.ids) for sentence in sentences]
        batch_size = min(batch_size, max(-(-len(lengths) // self._workers), 1))
        batches = (
            batches_by_length(lengths, batch_size)
            if batch_tokens is None
            else batches_by_tokens(lengths, batch_tokens, batch_size)
        )

        def translate(numbers: np.ndarray) -> list[list[Hypothesis]]:
            batch = [sentences[number] for number in numbers]
            return self._library.search(
                [sentence.ids for sentence in batch],
                [self._limit(sentence, search) for sentence in batch],
                search,
                starts=[sentence.forced_start for sentence in batch],
                count=search.top_beams,
                attention=attention,
                batch_size=len(batch),
            )

        rows: list[list[Hypothesis]] = [[] for _ in sentences]
        with ThreadPoolExecutor(self._workers) as pool:
            for numbers, found in zip(
                batches, pool.map(translate, batches), strict=True
            ):
                for number, row in zip(numbers, found, strict=True):
                    rows[number] = row
        return rows

    def _limit(self, sentence: Sentence, search: DecodingOptions) -> int:
        """The most tokens of a translation."""
        around = sentence.num_around(self._config.source_end)
        most = search.max_length or len(sentence.ids) - around + self._extra_length
        most = max(most, search.min_length, sentence.num_forced + 1)
        return min(most, self._config.longest_sequence)

    def _with_scores(
        self, sentences: Sequence[Sentence], rows: list[list[Hypothesis]]
    ) -> list[list[Hypothesis]]:
        pairs = [
            (sentence.ids, hypothesis)
            for sentence, row in zip(sentences, rows, strict=True)
            for hypothesis in row
        ]
        scores = self._library.scores(
            [ids for ids, _ in pairs], [hypothesis.ids for _, hypothesis in pairs]
        )
        scored = [
            dataclasses.replace(hypothesis, token_scores=values)
            for (_, hypothesis), values in zip(pairs, scores, strict=True)
        ]
        return regrouped(scored, rows)

    def _with_alignments(
        self,
        texts: Sequence[str],
        sentences: Sequence[Sentence],
        rows: list[list[Hypothesis]],
    ) -> list[list[Hypothesis]]:
        tokenizers = self.tokenizer, self.target_tokenizer
        found = []
        for text, sentence, row in zip(texts, sentences, rows, strict=True):
            weights = [h.attention["cross"][0, 0] for h in row if h.attention]
            bare = [
                dataclasses.replace(h, attention=None, source_tokens=None) for h in row
            ]
            direction = sentence.direction or direction_of(None, self._config)
            found.append(
                aligned(
                    bare,
                    weights,
                    sentence.ids,
                    direction,
                    text,
                    tokenizers,
                    sentence.num_forced,
                )
            )
        return found
