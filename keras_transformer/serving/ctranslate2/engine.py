"""Engine of a folder of `export --format ctranslate2`; needs no Keras.

T target positions, S source positions.
"""

import math
import os
import platform
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.arguments import check_lengths
from keras_transformer.config.decoding import GREEDY
from keras_transformer.config.languages import Languages
from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.serving.ctranslate2 import folder as export_folder
from keras_transformer.serving.decoding_cost import check_cost
from keras_transformer.serving.engine import Codes
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.translation.hypothesis import Hypothesis


class CTranslate2Engine:
    """Translates in C++; programs in the folder are not executed.

    It applies those of the model's options that the library supports. The library's
    beam search differs: a score is log-probability / length^alpha (`power`) with
    `gnmt`, too, and probabilities
    are renormalized without forbidden tokens, which changes the log-probabilities of a
    sentence by about a thousandth for suppressed ids. Greedy search is the same
    everywhere. Lines that are too long are refused.

    Args:
        folder: its path.
        limits: the limits of the server.
        beam_size: the largest W; default: the model's.
        length_penalty: the alpha; default: the model's.

    Raises:
        InputError: where the folder is incomplete or not an export, it cannot
            translate, or `ctranslate2` is not installed.
    """

    def __init__(
        self,
        folder: str | Path,
        limits: Limits,
        *,
        beam_size: int | None = None,
        length_penalty: float | None = None,
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
        contents = export_folder.read(Path(folder))
        self._source, self._target = contents.source, contents.target
        self._description = contents.description
        self.known_words = contents.known_words
        self.languages: Languages | None = None  # an export has one pair of them
        around = contents.description.languages
        ids = (around.before, around.after) if around else ([], [])
        self._around = tuple(map(self._source.pieces, ids))
        self._ends = contents.description.source_end  # which the library adds
        end = [contents.description.ids.end]
        self.source_end = self._ends or ids[1][-1:] == end
        search = contents.description.search
        if length_penalty is None:
            length_penalty = search.length_penalty
        bounds = contents.description.limits
        most = max(bounds.extra_length, search.min_length, search.max_length or 0)
        check_cost(1 if beam_size else search.beam_size, most)
        self.beam_size = search.beam_size if beam_size is None else beam_size
        self._length_penalty = length_penalty
        self._search = search.updated(
            {
                **(GREEDY if self.beam_size == 1 else {}),
                "beam_size": self.beam_size,
                "length_penalty": length_penalty,
            }
        )
        self._limits = limits
        self._pieces = self._target.pieces(range(self._target.vocabulary_size))
        self._ids = {piece: number for number, piece in enumerate(self._pieces)}
        try:
            self._model = ctranslate2.Translator(
                str(folder), device="auto", files=contents.files
            )
            self.translate(["a"], Options(self.beam_size))
        except (IndexError, MemoryError, RuntimeError, ValueError) as error:
            why = " ".join(str(error).split())
            raise InputError(f"{folder} cannot be used: {why}") from None

    def is_empty(self, text: str) -> bool:
        """See `Engine.is_empty`."""
        return self._source.is_empty(text)

    def _encode(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of each text, its prefix included."""
        around = self._description.languages
        prefix = around.prefix if around else ""
        return self._source.encode([prefix + text for text in texts])

    def count_tokens(
        self, texts: Sequence[str], codes: Codes = (None, None)
    ) -> list[int]:
        """Source tokens of each sentence, the end token included."""
        before, after = self._around
        more = len(before) + len(after) + self._ends
        counts = [len(ids) + more for ids in self._encode(texts)]
        longest = self._description.limits.longest_sequence
        longest = min(longest, self._search.max_source_length or longest)
        check_lengths(counts, longest)
        return counts

    def translate(
        self,
        texts: Sequence[str],
        options: Options,
        codes: Sequence[Codes] | None = None,
    ) -> list[list[Hypothesis]]:
        """See `Engine.translate`."""
        bounds = self._description.limits
        before, after = self._around
        encoded = self._encode(texts)
        sources = [[*before, *self._source.pieces(ids), *after] for ids in encoded]
        limits = [self._limit(len(ids), bounds) for ids in encoded]
        longest = max(limits)
        results = self._translate_batch(sources, longest, options)
        for row, limit in enumerate(limits):
            # The library has one limit for all rows; a row that reached it before its
            # own limit is searched again, alone.
            lengths = map(len, results[row].hypotheses)
            if limit < longest and max(lengths) >= limit:
                results[row] = self._translate_batch([sources[row]], limit, options)[0]
        return [
            self._hypotheses(source, limit, result)
            for source, limit, result in zip(sources, limits, results, strict=True)
        ]

    def _translate_batch(
        self, sources: list[list[str]], limit: int, options: Options
    ) -> list[Any]:
        """The library's results, with at most `limit` target tokens."""
        search = self._search
        width = options.beam_size
        patience = 1
        if search.patience and width > 1:
            most = max(math.ceil(search.patience * width), options.n_best)
            patience = most / width
        start = search.forced_start
        prefix = None if start is None else [[self._pieces[int(start)]]] * len(sources)
        return self._model.translate_batch(
            sources,
            target_prefix=prefix,
            beam_size=width,
            num_hypotheses=options.n_best,
            patience=patience,
            length_penalty=self._power(),
            repetition_penalty=search.repetition_penalty,
            no_repeat_ngram_size=search.no_repeat_ngram_size,
            max_decoding_length=limit - search.forced_end,
            min_decoding_length=max(search.min_length - 1, 0),  # without the end
            max_input_length=0,
            suppress_sequences=[
                [self._pieces[i]] for i in self._description.ids.suppressed
            ],
            return_scores=True,
            return_attention=options.attention,
            max_batch_size=self._limits.batch_size,
        )

    def _limit(self, count: int, bounds: export_folder.Bounds) -> int:
        """The maximum number of tokens of a translation of `count` source tokens."""
        most = self._search.max_length or count + bounds.extra_length
        return min(max(most, self._search.min_length), bounds.longest_sequence)

    def _power(self) -> float:
        """The exponent of the length in the library's scores."""
        alpha = self._length_penalty
        powers = {"gnmt": alpha, "power": alpha, "average": 1.0, "none": 0.0}
        return powers[self._search.normalization]

    def warm_up(self, longest: int) -> Iterator[str]:
        """One translation: nothing is compiled."""
        self.translate(["a"], Options(self.beam_size))
        yield "1 sentence"

    def info(self) -> dict[str, str | int | float]:
        """The engine, its precision and the sizes of the search."""
        return {
            "engine": f"ctranslate2, {self._model.device} {self._model.compute_type}",
            "attention": True,
            "beam_size": self.beam_size,
            "length_penalty": self._length_penalty,
        }

    def _hypotheses(
        self, source: list[str], limit: int, result: Any
    ) -> list[Hypothesis]:
        attention = result.attention or [None] * len(result.hypotheses)
        end = self._description.ids.end
        if self._ends:
            source = [*source, self._pieces[end]]
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
            finished = len(tokens) < limit
            has_ended = len(tokens) < limit - self._search.forced_end
            start = self._search.forced_start is not None
            hypothesis = Hypothesis(
                text=self._target.decode([ids[start:]])[0].replace("\n", " "),
                tokens=tokens,
                ids=[*ids, end] if finished else ids,
                log_probability=score * (len(tokens) + has_ended) ** self._power(),
                score=score,
                finished=finished,
                attention=weights and {"cross": _weights(weights, len(source))},
                source_tokens=source if weights else None,
            )
            hypotheses.append(hypothesis)
        return hypotheses


def _weights(rows: list[list[float]], columns: int) -> np.ndarray:
    """(1, 1, T, S), as `word_attention`; for older exports a head of the last layer.

    The library omits the weight of the end token: it is the remainder.
    """
    weights = np.asarray(rows, np.float32)[:, :columns]
    if weights.shape[1] < columns:
        rest = np.maximum(1 - weights.sum(1, keepdims=True), 0)
        weights = np.concatenate([weights, rest], axis=1)
    return weights[np.newaxis, np.newaxis]
