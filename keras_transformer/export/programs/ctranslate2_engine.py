"""Runs a CTranslate2 model.

Import nothing that loads PyTorch into the same process: its OpenMP library slows this
one down many times.

Its beam search has rules of its own. A hypothesis is worth log-probability /
length^alpha, the end counted: the normalization `power`, by which it searches for
`gnmt`, too; a row ends when `beam_size` hypotheses ended, whatever the others could
still become; an end that ranks below the first `beam_size` continuations is dropped;
what may not be chosen leaves its probability to the others. A first token that is
forced costs nothing and counts in the length; an end that is forced is not counted.
Greedy search finds the same text.
"""

import json
import math
import os
import platform
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from typing import NamedTuple

if platform.system() != "Darwin" and platform.machine() in ("x86_64", "AMD64"):
    # Else only on Intel's processors. On others without VNNI oneDNN takes MKL's place,
    # and there its int8 products saturate: another text, and a bad one.
    os.environ.setdefault("CT2_USE_MKL", "1")

import ctranslate2


class Hypothesis(NamedTuple):
    """One translation of one row."""

    ids: list[int]  # without the end
    score: float  # by the rules of CTranslate2


class Engine:
    """A CTranslate2 model: source ids to hypotheses.

    Args:
        folder: of the export.
        description: what is in `model.json`.
        threads: workers of one thread each, which is faster than one worker of
            several, above all in int8; 0: as many as there are processors.
        options: of `ctranslate2.Translator`.
    """

    makes_batches = True  # and hands them to its workers

    def __init__(
        self,
        folder: Path,
        description: Mapping[str, Any],
        threads: int = 0,
        **options: Any,
    ) -> None:
        workers = threads or os.cpu_count()
        settings = {"inter_threads": workers, "intra_threads": 1, **options}
        self.translator = ctranslate2.Translator(str(folder), **settings)
        names = ("source_vocabulary", "target_vocabulary")
        self.source, self.target = (self._pieces(folder, name) for name in names)
        self.ids = {piece: number for number, piece in enumerate(self.target)}
        self.end = description["ids"]["end"]
        self.source_end = description["source_end"]
        start = description["search"]["forced_start"]
        self.start = None if start is None else [self.target[start]]
        self.suppressed = [[self.target[i]] for i in description["ids"]["suppressed"]]

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: Mapping[str, Any],
        batch_size: int,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each row of source ids, which end with the end token."""
        cut = -1 if self.source_end else None  # the library adds it
        rows = [[self.source[i] for i in ids[:cut]] for ids in sources]
        longest = max(limits, default=0)

        def translate(rows: list[list[str]], limit: int) -> list[Any]:
            if limit <= options["forced_end"]:  # the end alone, which it refuses
                ends = SimpleNamespace(hypotheses=[[]], scores=[0.0])
                return [ends] * len(rows)
            return self.translator.translate_batch(
                rows,
                target_prefix=self.start and [self.start] * len(rows),
                max_batch_size=batch_size,
                # Without the end that is forced there.
                max_decoding_length=limit - options["forced_end"],
                max_input_length=0,
                suppress_sequences=self.suppressed,
                return_scores=True,
                **library_options(options),
            )

        hypotheses = []
        for row, limit, result in zip(
            rows, limits, translate(rows, longest), strict=True
        ):
            # The library has one limit for all; a row that went on to its own is
            # searched once more, alone.
            if limit < longest and max(map(len, result.hypotheses)) >= limit:
                (result,) = translate([row], limit)
            if any(math.isnan(score) for score in result.scores):
                raise ValueError(
                    "the model gives NaN: its weights are not finite, or numbers on "
                    "the way are too large; export a model that works"
                )
            pairs = zip(result.hypotheses, result.scores, strict=True)
            hypotheses.append(
                [Hypothesis([self.ids[p] for p in h], score) for h, score in pairs]
            )
        return hypotheses

    def score(
        self, sources: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]
    ) -> list[float]:
        """Log-probabilities of each row of target ids, which end with the end token."""
        cut = -1 if self.source_end else None
        results = self.translator.score_batch(
            [[self.source[i] for i in ids[:cut]] for ids in sources],
            [[self.target[i] for i in ids[:-1]] for ids in targets],
            max_input_length=0,
        )
        return [sum(result.log_probs) for result in results]

    def _pieces(self, folder: Path, name: str) -> list[str]:
        path = folder / f"{name}.json"
        path = path if path.exists() else folder / "shared_vocabulary.json"
        return json.loads(path.read_text("utf-8"))


def library_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """The options of `search` in `model.json` as the library names them."""
    width, count = options["beam_size"], options["top_beams"]
    patience = 1
    if options["patience"]:
        patience = max(math.ceil(options["patience"] * width), count) / width
    alpha = options["length_penalty"]
    powers = {"gnmt": alpha, "power": alpha, "average": 1, "none": 0}
    return {
        "beam_size": width,
        "num_hypotheses": count,
        "patience": patience,
        "length_penalty": powers[options["normalization"]],
        "repetition_penalty": options["repetition_penalty"],
        "no_repeat_ngram_size": options["no_repeat_ngram_size"],
        # Without the end. Of 1, the end would get no probability at first.
        "min_decoding_length": max(options["min_length"] - 1, 0),
    }
