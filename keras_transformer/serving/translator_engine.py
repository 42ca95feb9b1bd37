"""Engine of a `Translator`, with few compiled programs for batches of any size.

R rows, B batch, T target positions, S source positions, L of both, W beam width.
"""

import contextlib
import dataclasses
import functools
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer.arguments import check_lengths
from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.decoding import n_best_size
from keras_transformer.data.batching import pad_rows
from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.models.scoring import reread_attention
from keras_transformer.models.word_attention import require_attention
from keras_transformer.serving.decoding_cost import check_cost
from keras_transformer.serving.engine import Codes
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.source_lines import SourceLines
from keras_transformer.translation.static_shapes import bucket
from keras_transformer.translator import Translator


class TranslatorEngine:
    """Translates as `Translator.translate` does, except for long lines and samples.

    Lines that are too long are refused, whatever the translator's `long_lines` is: a
    client would not see the warning that text was cut. If the translator samples, a
    beam search of its `beam_size` is used instead: samples would depend on the other
    requests of the batch.

    A program is compiled for each number of rows, length and kind of search. To keep
    these few, batches are filled up to one of `Limits.row_counts`, the length penalty
    is the same for all, and a search returns either the best or all of its hypotheses,
    with MBR all candidates.

    Args:
        translator: the translator of the model.
        limits: the limits of the server.
        beam_size: the largest W; default: the translator's.
        length_penalty: the alpha; default: the translator's.

    Raises:
        InputError: where these conflict with the translator's other options, or may
            make a line take minutes.
    """

    def __init__(
        self,
        translator: Translator,
        limits: Limits,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
    ) -> None:
        _check_cost(translator.decoding, beam_size)
        self.beam_size = translator.beam_size if beam_size is None else beam_size
        self._translator = translator
        self._limits = limits
        self._length_penalty = (
            translator.length_penalty if length_penalty is None else length_penalty
        )
        model, options = translator.model, translator.decoding
        self._lines = SourceLines(
            translator.tokenizer, translator.target_tokenizer, model.config
        )
        self.source_around = 0, int(model.config.source_end)
        self.known_words = translator.known_words
        self.about = translator.about
        self.languages = translator.languages
        if self.languages is not None:
            layout = self.languages.source_layout
            before = layout.index("text")
            self.source_around = before, len(layout) - before - 1
        most = n_best_size(self.beam_size)
        for request in (Options(self.beam_size), Options(most, most)):
            options.updated(self._search(request))
        self._longest = model.config.longest_sequence
        if options.max_source_length:
            self._longest = min(self._longest, options.max_source_length)
        self._attend = backends.compile(
            functools.partial(reread_attention, model), model
        )

    def is_empty(self, text: str) -> bool:
        """See `Engine.is_empty`."""
        return self._translator.tokenizer.is_empty(text)

    def count_tokens(
        self, texts: Sequence[str], codes: Codes = (None, None)
    ) -> list[int]:
        """Source tokens of each sentence, the end token included."""
        counts = list(map(len, self._sources(texts, [codes] * len(texts))))
        check_lengths(counts, self._longest)
        return counts

    def _sources(self, texts: Sequence[str], codes: Sequence[Codes]) -> list[list[int]]:
        """The ids of each text, with what stands around it."""
        around = {pair: self._translator.direction(*pair) for pair in set(codes)}
        directions = [around[pair] for pair in codes]
        return self._lines.encode(texts, directions=directions)

    def translate(
        self,
        texts: Sequence[str],
        options: Options,
        codes: Sequence[Codes] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.translate`."""
        codes = codes or [(None, None)] * len(texts)
        if options.attention:
            require_attention(self._translator.model, "alignments and attention need")
        counts = list(map(len, self._sources(texts, codes)))
        check_lengths(counts, self._longest)
        length = bucket(max(counts))
        sources, targets = map(list, zip(*codes, strict=True))
        sizes = [n for n in self._limits.row_counts(length) if n >= len(texts)]
        try:
            translations: Any = self._translator.translate(
                texts,
                **self._codes(sources, targets),
                batch_size=sizes[0] if sizes else len(texts),
                fill_batches=True,
                return_details=True,
                **self._search(options),
            )
        except InputError as error:  # the texts and options were checked
            raise ModelError(f"the model cannot translate: {error}") from None
        translations = [hypotheses[: options.n_best] for hypotheses in translations]
        return (
            self._with_attention(texts, translations, codes)
            if options.attention
            else translations
        )

    def _codes(self, *codes: list[str | None]) -> dict[str, Any]:
        """The languages of each text, as arguments of `Translator.translate`."""
        if self.languages is None:
            return {}
        pairs = zip(*codes, strict=True)
        chosen = [self.languages.pair(*pair) for pair in pairs]
        names = ("source_language", "target_language")
        sides = zip(*chosen, strict=True)
        # A source that nothing depends on need not be known.
        return {
            name: list(side)
            for name, side in zip(names, sides, strict=True)
            if None not in side
        }

    def _any_codes(self) -> Codes:
        """Languages that the model has, to compile with."""
        languages = self.languages
        if languages is None:
            return (None, None)
        for target in languages.target_languages:
            for source in (languages.source, *languages.source_languages):
                with contextlib.suppress(InputError):
                    return languages.pair(source, languages.target or target)
        return (None, None)

    def warm_up(self, longest: int) -> Iterator[str]:
        """See `Engine.warm_up`."""
        codes = self._any_codes()
        length = bucket(1)
        end = bucket(min(longest, self._longest)) if longest else 0
        while length <= end:
            line = self._line(length, codes)
            for rows in self._limits.row_counts(length):
                options = Options(self.beam_size)
                self.translate([line] * rows, options, [codes] * rows)
                plural = "" if rows == 1 else "s"
                yield f"{rows} sentence{plural} of up to {length} tokens"
            attention = self._translator.attends
            options = Options(self.beam_size, self.beam_size, attention)
            self.translate([line], options, [codes])
            most = n_best_size(self.beam_size)
            if most > self.beam_size:
                self.translate([line], Options(most, most), [codes])
            yield f"several hypotheses of up to {length} tokens"
            length = bucket(length + 1)

    def info(self) -> dict[str, str | int | float]:
        """The engine, the backend and the sizes of model and search."""
        return {
            "engine": f"keras, {backends.name}",
            "kind": self._translator.model.config.kind,
            "weights": self._translator.model.config.num_weights,
            "attention": self._translator.attends,
            "beam_size": self.beam_size,
            "length_penalty": self._length_penalty,
        }

    def _search(self, options: Options) -> dict[str, Any]:
        """The arguments of `Translator.translate`."""
        defaults = self._translator.decoding
        # The model's options for beams may not fit greedy search.
        plain = defaults.sampling or 1 in (self.beam_size, options.beam_size)
        most = None if plain else defaults.mbr_candidates
        return {
            **(GREEDY if plain else {}),
            "beam_size": options.beam_size,
            "top_beams": 1 if options.n_best == 1 else most or options.beam_size,
            "length_penalty": self._length_penalty,
            "long_lines": "error",
        }

    def _line(self, length: int, codes: Codes) -> str:
        """A line with nearly as many tokens as fit into `length` and into the model."""
        most = min(length, self._longest)
        words = ["a"]
        while len(self._sources([" ".join([*words, "a"])], [codes])[0]) <= most:
            words.append("a")
        return " ".join(words)

    # === Attention ===

    def _with_attention(
        self,
        texts: Sequence[str],
        found: list[list[Hypothesis]],
        codes: Sequence[Codes],
    ) -> list[list[Hypothesis]]:
        """The hypotheses with the cross-attention of their positions."""
        sources = self._sources(texts, codes)
        starts = [self._translator.direction(*pair).start_id for pair in codes]
        pairs = [
            (row, h.ids) for row, hypotheses in enumerate(found) for h in hypotheses
        ]
        weights = iter(self._cross_weights(sources, pairs, starts))
        return [
            [
                dataclasses.replace(
                    hypothesis,
                    attention={"cross": next(weights)[np.newaxis, np.newaxis]},
                    source_tokens=self._translator.tokenizer.pieces(sources[row]),
                )
                for hypothesis in hypotheses
            ]
            for row, hypotheses in enumerate(found)
        ]

    def _cross_weights(
        self,
        sources: list[list[int]],
        pairs: list[tuple[int, list[int]]],
        starts: list[int],
    ) -> Iterator[np.ndarray]:
        """(T, S) of each pair of source row and target ids, under teacher forcing."""
        config = self._translator.model.config
        for i in range(0, len(pairs), self.beam_size):
            batch = pairs[i : i + self.beam_size]
            rows = [(sources[row], ids) for row, ids in batch]
            # One shape per length: always W rows, and equal lengths of both sides.
            length = bucket(max(len(part) for pair in rows for part in pair))
            length = min(length, config.longest_sequence)
            rows += [([config.end_id], [config.end_id])] * (self.beam_size - len(batch))
            source, labels = (
                ops.convert_to_tensor(pad_rows(list(side), length, config.pad_id))
                for side in zip(*rows, strict=True)
            )
            first = [starts[row] for row, _ in batch]
            more = []
            if any(start != config.start_id for start in first):
                first += [config.start_id] * (self.beam_size - len(batch))
                more = [ops.convert_to_tensor(np.array(first, np.int32))]
            weights = ops.convert_to_numpy(self._attend(source, labels, *more))
            for (row, ids), pair_weights in zip(batch, weights, strict=False):
                yield pair_weights[: len(ids), : len(sources[row])]


def _check_cost(own: DecodingOptions, beam_size: int | None) -> None:
    """Refuses options of the model that cost too much; see `check_cost`.

    A beam size given to the server is the operator's choice, and allowed.
    """
    hypotheses = 1 if beam_size else own.beam_size
    if own.mbr is not None and not own.sampling:
        hypotheses = max(hypotheses, own.num_candidates)
    check_cost(hypotheses, max(own.min_length, own.max_length or 0))
