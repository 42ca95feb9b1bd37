"""Strings to strings: tokenizer, model and search; a model folder, saved and loaded.

T target positions, S source positions, R hypotheses a line.
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer import model_folder
from keras_transformer.arguments import check_counts
from keras_transformer.arguments import check_lengths
from keras_transformer.arguments import check_texts
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.config.languages import alike
from keras_transformer.config.languages import direction_of
from keras_transformer.config.languages import refuse_languages
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.kinds import kind_of
from keras_transformer.models.kinds import num_weights
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.word_attention import attends
from keras_transformer.translation import rereading
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import IdHypothesis
from keras_transformer.translation.hypothesis import NOTHING_LEFT
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import TranslationScore
from keras_transformer.translation.hypothesis import empty
from keras_transformer.translation.hypothesis import join
from keras_transformer.translation.hypothesis import ranked
from keras_transformer.translation.hypothesis import regrouped
from keras_transformer.translation.sentence import Sentence
from keras_transformer.translation.source_lines import Codes
from keras_transformer.translation.source_lines import SourceLines
from keras_transformer.translation.source_lines import directions_of_lines
from keras_transformer.translation.source_lines import warn


class Translator:
    """A trained model with its tokenizers: lines in, translations out.

    It is safe to call from several threads; docs/speed.md is about several processes.

    Args:
        model: a model of this package, or an `Ensemble` of them.
        tokenizer: of the source, and of the target unless that has its own.
        target_tokenizer: of the target, where the vocabularies differ.
        known_words: all that the model has learned, where it is a closed language, such
            as the embedded phrasebook; kept in the model folder.
        languages: of a multilingual model; kept in the model folder.
        source_language: the code of the source, the default of `translate` and `score`.
        target_language: the code of the target, in the same way.
        about: the model's name, languages and training text; kept in the model folder.
        options: fields of `DecodingOptions`, the defaults of `translate`.

    Raises:
        InputError: where a tokenizer is not the model's, or an option is not right.

    Example:

    >>> import keras_transformer as kt
    >>> tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
    >>> translator = kt.Translator(kt.Transformer(config), tokenizer)
    >>> len(translator.translate(["a house", ""]))
    2
    """

    def __init__(
        self,
        model: TranslationModel | Ensemble,
        tokenizer: Tokenizer,
        target_tokenizer: Tokenizer | None = None,
        *,
        known_words: KnownWords | None = None,
        languages: Languages | None = None,
        source_language: str | None = None,
        target_language: str | None = None,
        about: About | None = None,
        **options: Any,
    ) -> None:
        config = model.config
        target_tokenizer = target_tokenizer or tokenizer
        for side, processor in (("source", tokenizer), ("target", target_tokenizer)):
            size = getattr(config, f"{side}_vocabulary_size")
            processor.check(vocabulary_size=size, where=side, **config.special_ids)
        self.model = model
        self.tokenizer = tokenizer
        self.target_tokenizer = target_tokenizer
        self.known_words = known_words
        self.about = about or About()
        self.languages = languages
        if languages is None:
            refuse_languages(source_language, target_language)
        else:
            languages.check(config)
            chosen = languages.with_defaults(source_language, target_language)
            self.languages = chosen
        self.decoding = DecodingOptions.of(options)
        self._lines = SourceLines(
            tokenizer, target_tokenizer, config, self.about.source_language
        )
        self._searcher = BatchSearch(model)

    @property
    def beam_size(self) -> int:
        """W, the default of `translate`."""
        return self.decoding.beam_size

    @property
    def length_penalty(self) -> float:
        """Alpha, the default of `translate`."""
        return self.decoding.length_penalty

    @property
    def attends(self) -> bool:
        """Whether there is attention to the source, and so alignments."""
        return attends(self.model)

    # === Translation ===

    def translate(
        self,
        lines: Sequence[str],
        *,
        source_language: Codes = None,
        target_language: Codes = None,
        prefixes: Sequence[str] | None = None,
        batch_size: int = 64,
        batch_tokens: int | None = None,
        fill_batches: bool = False,
        return_details: bool = False,
        return_token_scores: bool = False,
        return_alignments: bool = False,
        return_attention_weights: bool = False,
        first_line: int = 1,
        split_sentences: bool = False,
        **options: Any,
    ) -> list[str] | list[list[Hypothesis]]:
        """The translation of each line, in order.

        Lines are translated in batches of similar length; each is translated as it
        would be alone. A line of which the tokenizer's normalization leaves nothing but
        white space gives an empty line, whatever its prefix.
        Without a GPU, TensorFlow and JAX work on up to four batches of a small model
        at once, in threads: as many as there are processors, or OMP_NUM_THREADS.

        Args:
            lines: one sentence each.
            source_language: of a multilingual model, the code of the language of all
                lines, or of each. Default: the translator's.
            target_language: that of the translations, in the same way.
            prefixes: how each translation must begin; `""` for any way. It ends where
                a token does: give whole words. How probable it is plays no part in the
                choice of what follows.
            batch_size: the most lines of a batch.
            batch_tokens: the most source tokens of a batch, padding included; a longer
                line is translated alone. Where translations are read again, for scores
                and attention, it holds for their tokens, too. Default: any number.
            fill_batches: give fewer lines than `batch_size` the program of as many: a
                server compiles few. Rows without a line take little time. Not together
                with `batch_tokens`.
            return_details: give hypotheses, best first, instead of strings.
            return_token_scores: with `return_details`, fill `token_scores`.
            return_alignments: with `return_details`, fill `alignment`.
            return_attention_weights: with `return_details`, fill `attention`.
            first_line: the number of the first line, for messages and samples.
            split_sentences: translate each sentence of a line by itself, and join them
                with the spaces of the source; needs the package `sentencex`. They end
                by the rules of the source language, of English where it is not known.
            options: fields of `DecodingOptions`, such as `beam_size=4`, in place of the
                translator's own.

        Warns:
            UserWarning: of each line that is cut, under `long_lines="truncate"`.

        Raises:
            InputError: where arguments are not right or do not go together, a language
                is missing or not known, a line is too long, the options leave no
                translation, or the model has not the attention that is asked for.

        Example:

        >>> import keras_transformer as kt
        >>> tokenizer = kt.data.Tokenizer.train(["ein Haus a house"] * 9, 270)
        >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=270)
        >>> translator = kt.Translator(kt.Transformer(config), tokenizer)
        >>> found, = translator.translate(
        ...     ["a house"], return_details=True, sampling=True, top_beams=3,
        ...     max_length=5, prefixes=["ein"]
        ... )
        >>> [hypothesis.text[:3] for hypothesis in found]
        ['ein', 'ein', 'ein']
        """
        check_counts(batch_size=batch_size, first_line=first_line)
        if batch_tokens is not None:
            check_counts(batch_tokens=batch_tokens)
        chosen = self.decoding.updated(options)
        resolved = self._resolved(chosen)
        check_texts(lines=lines)
        around = self._directions(source_language, target_language, lines, resolved)
        pieces, cuts = self._lines.sentences(
            lines, prefixes, first_line, resolved, around, split=split_sentences
        )
        warn(cuts)
        if return_attention_weights or return_alignments:
            rereading.check_attention(self.model, pieces, return_attention_weights)
        if return_alignments:
            self.tokenizer.require_words()
            self.target_tokenizer.require_words()
        sentences = [sentence for line in pieces for _, sentence in line]
        of_sentences = [
            one for one, line in zip(around, pieces, strict=True) for _ in line
        ]
        results = self._searcher.translate(
            sentences, resolved, batch_size, batch_tokens, fill_batches
        )
        for sentence, row in zip(sentences, results, strict=True):
            if not row:
                raise InputError(f"{sentence.name}: {NOTHING_LEFT}")
        starts = [sentence.forced_start is not None for sentence in sentences]
        rows = [
            ranked([self._hypothesis(found, start) for found in row], chosen)
            for row, start in zip(results, starts, strict=True)
        ]
        sources = [sentence.ids for sentence in sentences]
        if not return_details:
            rows = [row[:1] for row in rows]
        elif return_token_scores or return_alignments:
            rows = rereading.with_details(
                self._searcher,
                (self.tokenizer, self.target_tokenizer),
                [part.text for line in pieces for part, _ in line],
                sources,
                rows,
                token_scores=return_token_scores,
                alignments=return_alignments,
                num_forced=starts,
                directions=of_sentences,
                batch_size=batch_size,
                batch_tokens=batch_tokens,
            )
        if return_details and return_attention_weights:
            rows = rereading.with_attention(
                self._searcher,
                self.tokenizer,
                sources,
                rows,
                batch_size=batch_size,
                batch_tokens=batch_tokens,
                directions=of_sentences,
            )
        details = return_token_scores, return_alignments, return_attention_weights
        joined = [
            join(parts, [part for part, _ in line]) if line else [empty(*details)]
            for parts, line in zip(regrouped(rows, pieces), pieces, strict=True)
        ]
        return joined if return_details else [row[0].text for row in joined]

    @contextlib.contextmanager
    def watched(self, progress: Callable[[int, int], None]) -> Iterator[None]:
        """In the block, `translate` tells how far it is.

        Args:
            progress: a function of the number of sentences that are translated, and of
                all sentences of the call.
        """
        self._searcher.progress = progress
        try:
            yield
        finally:
            self._searcher.progress = None

    def compile(
        self, batch_size: int = 64, longest: int = 128, **options: Any
    ) -> Iterator[tuple[int, int]]:
        """Compiles the searches that `translate` may need; the first calls do not wait.

        They are those of full batches and of single lines of each rounded length, of
        the languages that are the translator's own, and without prefixes.

        Args:
            batch_size: that of `translate`.
            longest: the most tokens of a source line.
            options: those of `translate`.

        Yields:
            `(lines, tokens)`, the shape of each program, once it is compiled.

        Raises:
            InputError: where arguments are not right, or a language is missing.
        """
        check_counts(batch_size=batch_size, longest=longest)
        resolved = self._resolved(self.decoding.updated(options))
        (direction,) = self._directions(None, None, [""], resolved)
        (ids,) = self._lines.encode([""], directions=[direction])
        sentence = Sentence(ids, forced_start=direction.forced_id, direction=direction)
        return self._searcher.compile(sentence, resolved, batch_size, longest)

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        *,
        source_language: Codes = None,
        target_language: Codes = None,
        batch_size: int = 64,
        first_line: int = 1,
    ) -> list[TranslationScore]:
        """The log-probability of each given translation, and of its tokens.

        A forced first token (`forced_start` of the translator's options, or the
        language of the target) comes before the tokens, and does not count.

        Args:
            sources: one sentence each.
            targets: a translation of each.
            source_language: see `translate`.
            target_language: see `translate`.
            batch_size: the most lines of a batch.
            first_line: the number of the first line, for messages.

        Raises:
            InputError: where the numbers of lines differ, a language is missing or not
                known, or a line is too long.
        """
        check_counts(batch_size=batch_size, first_line=first_line)
        check_texts(sources=sources, targets=targets)
        around = self._directions(
            source_language, target_language, sources, self._resolved(self.decoding)
        )
        source_ids, target_ids = self._lines.encode_pairs(
            sources, targets, around, first_line
        )
        results = self._searcher.score(
            source_ids,
            target_ids,
            batch_size,
            starts=[direction.start_id for direction in around],
        )
        num_forced = [len(direction.target_before) for direction in around]
        rows = [
            (ids[count:], scores[count:])
            for ids, scores, count in zip(target_ids, results, num_forced, strict=True)
        ]
        return [
            TranslationScore(
                log_probability=float(scores.sum(dtype="float64")),
                num_tokens=len(ids),
                token_scores=scores.tolist(),
                tokens=self.target_tokenizer.pieces(ids),
            )
            for ids, scores in rows
        ]

    def count_tokens(
        self,
        lines: Sequence[str],
        *,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> list[int]:
        """Source tokens of each line, the end token included if the model wants one.

        Args:
            lines: one sentence each.
            source_language: see `translate`; languages are tokens, too.
            target_language: see `translate`.

        Raises:
            InputError: where a line is longer than the model can take.
        """
        check_texts(lines=lines)
        around = self._directions(source_language, target_language, lines)
        counts = [len(ids) for ids in self._lines.encode(lines, directions=around)]
        check_lengths(counts, self.model.config.longest_sequence)
        return counts

    def direction(
        self, source_language: str | None = None, target_language: str | None = None
    ) -> Direction:
        """The tokens around a text and its translation, for a pair of languages.

        Args:
            source_language: the code of the source; the translator's if left out.
            target_language: that of the translation, in the same way.

        Raises:
            InputError: where a language is missing or not known.
        """
        direction = direction_of(
            self.languages, self.model.config, source_language, target_language
        )
        return direction.forced(self._resolved(self.decoding).forced_start)

    def check(
        self,
        lines: Sequence[str],
        *,
        source_language: Codes = None,
        target_language: Codes = None,
    ) -> None:
        """Raises the errors that `translate` would raise, without translating.

        Args:
            lines: see `translate`, as the others.
            source_language: see `lines`.
            target_language: see `lines`.

        Raises:
            InputError: where a line is too long, or a language is missing or not known.
        """
        check_texts(lines=lines)
        around = self._directions(source_language, target_language, lines)
        if self.decoding.long_lines != "truncate":
            self._lines.sentences(lines, None, 1, self.decoding, around)

    def _directions(
        self,
        source_language: Codes,
        target_language: Codes,
        lines: Sequence[str],
        options: DecodingOptions | None = None,
    ) -> list[Direction]:
        """The direction of each line."""
        return directions_of_lines(
            source_language,
            target_language,
            len(lines),
            self.languages,
            self.model.config,
            options.forced_start if options else None,
        )

    def _resolved(self, options: DecodingOptions) -> DecodingOptions:
        """The options with ids in place of pieces."""
        return options.with_ids(self.target_tokenizer.ids_of)

    # === Hypotheses ===

    def _hypothesis(self, found: IdHypothesis, num_forced: int) -> Hypothesis:
        """A hypothesis with its text, which is without the forced first tokens."""
        ids = found.ids
        ended = found.finished and ids[-1] == self.model.config.end_id
        content = ids[:-1] if ended else ids
        return Hypothesis(
            # One line, whatever bytes a model may produce.
            text=self.target_tokenizer.decode([content[num_forced:]])[0].replace(
                "\n", " "
            ),
            tokens=self.target_tokenizer.pieces(content),
            ids=ids,
            log_probability=found.log_probability,
            score=found.score,
            finished=found.finished,
            prefix_log_probability=found.prefix_log_probability,
        )

    # === The model folder ===

    def info(self) -> dict[str, Any]:
        """Facts about the model, by name, as `keras-transformer info` prints them."""
        config, known = self.model.config, self.known_words
        return {
            **self.about.info(),
            **(known.info() if known else {}),
            **(self.languages.info() if self.languages else {}),
            "kind": kind_of(self.model),
            "weights": num_weights(self.model),
            "beam size": self.beam_size,
            "length penalty": self.length_penalty,
            **{
                name.replace("_", " "): value
                for name, value in self.decoding.changed().items()
                if name not in ("beam_size", "length_penalty")
            },
            **config.model_dump(exclude_none=True),
        }

    def save(self, folder: str | Path, card: str | None = None) -> None:
        """Writes a model folder: config, weights, tokenizers and a card.

        The folder is written completely or not at all; an older model folder of the
        same name is replaced.

        Args:
            folder: its path.
            card: the text of its README.md; default: a list of facts.

        Raises:
            InputError: where the folder holds something else, or cannot be written, or
                the model is an ensemble.
        """
        if isinstance(self.model, Ensemble):
            raise InputError(
                f"{folder} cannot hold an ensemble; save its members, each by itself"
            )
        contents = model_folder.Contents(
            self.model,
            self.tokenizer,
            self.target_tokenizer,
            self.decoding,
            self.known_words,
            self.languages,
            self.about,
        )
        model_folder.write(folder, contents, card or self._card())

    @classmethod
    def load(
        cls,
        folder: str | Path,
        *others: str | Path,
        combination: str = "probabilities",
        source_language: str | None = None,
        target_language: str | None = None,
    ) -> "Translator":
        """Reads a model folder, of any backend. Runs nothing from it.

        Args:
            folder: its path.
            others: model folders with the same tokenizers, which then translate
                together with the first; the options and known words are those of the
                first.
            combination: of several, see `models.Ensemble`.
            source_language: of a multilingual model, in place of the folder's default.
            target_language: in the same way.

        Raises:
            InputError: where a file is missing, cut off or foreign, models do not go
                together, or a language is not known.
        """
        model, source, target, decoding, known_words, languages, about = (
            model_folder.read(folder)
        )
        models = [model]
        for path in others:
            contents = model_folder.read(path)
            for first, other in zip((source, target), contents[1:3], strict=True):
                if first.model != other.model:
                    raise InputError(
                        f"{path} has another tokenizer than {folder}; the models "
                        f"of an ensemble must have been trained with the same one"
                    )
            if not alike(languages, contents.languages):
                raise InputError(
                    f"{path} has other languages than {folder}; the models of an "
                    f"ensemble must have the same language codes and layouts"
                )
            models.append(contents.model)
        model = Ensemble(models, combination) if others else model
        return cls(
            model,
            source,
            target,
            known_words=known_words,
            languages=languages,
            source_language=source_language,
            target_language=target_language,
            about=about,
            **decoding.model_dump(),
        )

    def _card(self) -> str:
        facts = "\n".join(f"* {name}: {value}" for name, value in self.info().items())
        return (
            "# A translation model of keras-transformer\n\n"
            "`keras-transformer translate` with this folder translates standard "
            f"input.\n\n{facts}\n"
        )
