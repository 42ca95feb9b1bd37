"""CTranslate2 with a folder of `export --format ctranslate2`: ids in, hypotheses out.

T target positions, S source positions.
"""

import math
import os
import platform
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.engines.export_folder import Contents
from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.translation.hypothesis import Hypothesis

#: Of a model whose sizes were checked, for what it may still lack.
FAULTS = (IndexError, MemoryError, RuntimeError, ValueError)
#: A score below it is one of tokens that the library was told not to write.
_FORBIDDEN = -1e6


class Library:
    """A model that runs in C++; programs in its folder are not executed.

    The library's search has rules of its own: a sentence ends after `patience` (without
    one, 1) * `beam_size` hypotheses, and probabilities are renormalized without
    forbidden tokens. Of what it finds the best is chosen by the scores of this package,
    so that its text is nearly always that of the model. Greedy search is the same.

    Args:
        folder: its path, for messages.
        contents: what it holds.
        workers: how many batches a processor works on at once, with one thread each;
            default: one batch, with several threads. A GPU has one.

    Raises:
        InputError: where `ctranslate2` is not installed, or refuses the model.
    """

    def __init__(
        self, folder: str | Path, contents: Contents, *, workers: int | None = None
    ) -> None:
        if platform.system() != "Darwin" and platform.machine() in ("x86_64", "AMD64"):
            # As in an export's programs: oneDNN's int8 saturates without VNNI.
            os.environ.setdefault("CT2_USE_MKL", "1")
        try:
            import ctranslate2
        except ImportError:
            raise InputError(
                f"{folder} needs CTranslate2, which is not installed; run pip "
                "install ctranslate2"
            ) from None
        self._source, self._target = contents.source, contents.target
        description = contents.description
        self._end = description.ids.end
        self._adds_end = description.source_end  # to sources, by itself
        self._pieces = self._target.pieces(range(self._target.vocabulary_size))
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        self._suppressed = description.ids.suppressed
        settings = {"inter_threads": workers, "intra_threads": 1} if workers else {}
        if ctranslate2.get_cuda_device_count():
            settings = {}
        try:
            self._model = ctranslate2.Translator(
                str(folder), device="auto", files=contents.files, **settings
            )
        except FAULTS as error:
            why = " ".join(str(error).split())
            raise InputError(f"{folder} cannot be used: {why}") from None

    @property
    def name(self) -> str:
        """The library, the device and the precision."""
        return f"ctranslate2, {self._model.device} {self._model.compute_type}"

    def search(
        self,
        sources: Sequence[list[int]],
        limits: Sequence[int],
        search: DecodingOptions,
        *,
        starts: Sequence[int | None],
        count: int = 1,
        attention: bool = False,
        batch_size: int = 64,
    ) -> list[list[Hypothesis]]:
        """At most `count` hypotheses of each source, best first.

        Args:
            sources: the ids of each, with all that stands around its text.
            limits: the most tokens of each translation.
            search: its options, with ids in place of pieces.
            starts: the forced first token of each translation.
            count: how many hypotheses.
            attention: whether to fill `attention` and `source_tokens`.
            batch_size: the most sources that are translated together.

        Raises:
            ModelError: where the model gives no numbers.
        """
        options = self._options(search, count)
        # In a beam search of several sources, the library gives the first token of one
        # the attention of another.
        size = 1 if attention and search.beam_size > 1 else batch_size
        options |= {"max_batch_size": size, "return_attention": attention}
        cut = -1 if self._adds_end else None
        rows = [self._source.pieces(ids[:cut]) for ids in sources]
        prefixes = [
            [] if start is None else [self._pieces[int(start)]] for start in starts
        ]

        def translate(numbers: Sequence[int], limit: int) -> list[Any]:
            if limit <= search.forced_end:  # the end alone, which the library refuses
                alone = {"hypotheses": [[]], "scores": [0.0]}
                ends = SimpleNamespace(**alone, attention=[[]] if attention else [])
                return [ends] * len(numbers)
            return self._model.translate_batch(
                [rows[number] for number in numbers],
                target_prefix=[prefixes[n] for n in numbers] if any(prefixes) else None,
                max_decoding_length=limit - search.forced_end,
                **options,
            )

        longest = max(limits)
        results = translate(range(len(rows)), longest)
        for row, limit in enumerate(limits):
            # The library has one limit for all rows; a row that reached it before its
            # own limit is searched again, alone.
            lengths = map(len, results[row].hypotheses)
            if limit < longest and max(lengths) >= limit:
                (results[row],) = translate([row], limit)
        return [
            self._hypotheses(source, limit, start, result, search)[:count]
            for source, limit, start, result in zip(
                sources, limits, starts, results, strict=True
            )
        ]

    def scores(
        self, sources: Sequence[list[int]], targets: Sequence[list[int]]
    ) -> list[list[float]]:
        """The log-probability of each target id, given the ids before it.

        Args:
            sources: the ids of each source.
            targets: the ids of its translation, with its end where there is one.
        """
        cut = -1 if self._adds_end else None
        is_ended = [ids[-1:] == [self._end] for ids in targets]
        results = self._model.score_batch(
            [self._source.pieces(ids[:cut]) for ids in sources],
            [
                self._target.pieces(ids[:-1] if ended else ids)
                for ids, ended in zip(targets, is_ended, strict=True)
            ],
            max_input_length=0,
        )
        return [
            list(map(float, result.log_probs[: len(ids)]))
            for result, ids in zip(results, targets, strict=True)
        ]

    def _options(self, search: DecodingOptions, count: int) -> dict[str, Any]:
        """The options of a search as the library names them."""
        width = search.beam_size
        patience = 1
        if search.patience and width > 1:
            patience = max(math.ceil(search.patience * width), count) / width
        suppressed = self._all_suppressed(search)
        return {
            "beam_size": width,
            # All that it keeps: they are ranked once more.
            "num_hypotheses": max(width, count),
            "patience": patience,
            "length_penalty": _power(search),
            "repetition_penalty": search.repetition_penalty,
            "no_repeat_ngram_size": search.no_repeat_ngram_size,
            "min_decoding_length": max(search.min_length - 1, 0),  # without the end
            "max_input_length": 0,
            "suppress_sequences": [[self._pieces[i]] for i in sorted(suppressed)],
            "return_scores": True,
        }

    def _all_suppressed(self, search: DecodingOptions) -> set[int]:
        return {*self._suppressed, *map(int, search.suppressed_tokens)}

    def _hypotheses(
        self,
        source: list[int],
        limit: int,
        start: int | None,
        result: Any,
        search: DecodingOptions,
    ) -> list[Hypothesis]:
        attention = result.attention or [None] * len(result.hypotheses)
        suppressed = self._all_suppressed(search)
        hypotheses = []
        for tokens, score, weights in zip(
            result.hypotheses, result.scores, attention, strict=True
        ):
            if math.isnan(score):
                raise ModelError(
                    "the model gives NaN: its weights are not finite, or "
                    "intermediate values overflow; export another model"
                )
            ids = [self._ids[piece] for piece in tokens]
            text = ids if start is None else ids[1:]
            if score < _FORBIDDEN or not suppressed.isdisjoint(text):
                continue  # it has nothing else left
            finished = len(tokens) < limit
            has_ended = len(tokens) < limit - search.forced_end
            total = score * (len(tokens) + has_ended) ** _power(search)
            if finished:
                ids = [*ids, self._end]
            hypothesis = Hypothesis(
                text=self._target.decode([text])[0].replace("\n", " "),
                tokens=tokens,
                ids=ids,
                log_probability=total,
                score=total / _penalty(len(ids), search),
                finished=finished,
                attention=None
                if weights is None
                else {"cross": _weights(weights, len(source))},
                source_tokens=None if weights is None else self._source.pieces(source),
            )
            hypotheses.append(hypothesis)
        return sorted(hypotheses, key=lambda found: -found.score)


def _power(search: DecodingOptions) -> float:
    """The exponent of the length in the library's scores."""
    alpha = search.length_penalty
    powers = {"gnmt": alpha, "power": alpha, "average": 1.0, "none": 0.0}
    return powers[search.normalization]


def _penalty(length: int, search: DecodingOptions) -> float:
    """What a log-probability is divided by, see `decoding.length_penalty`."""
    base = (5 + length) / 6 if search.normalization == "gnmt" else length
    return max(base, 1) ** _power(search)


def _weights(rows: list[list[float]], columns: int) -> np.ndarray:
    """(1, 1, T, S), as `word_attention`; for older exports a head of the last layer.

    The library omits the weight of the end token: it is the remainder.
    """
    if not rows:
        return np.zeros((1, 1, 0, columns), np.float32)
    weights = np.asarray(rows, np.float32)[:, :columns]
    if weights.shape[1] < columns:
        rest = np.maximum(1 - weights.sum(1, keepdims=True), 0)
        weights = np.concatenate([weights, rest], axis=1)
    return weights[np.newaxis, np.newaxis]
