"""Runs the signatures of a LiteRT file.

B batch, S source positions, W beam width, L length of the cache.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from ai_edge_litert.interpreter import Interpreter
from rules import require_numbers
from search import Hypothesis
from search import empty_caches
from search import padded
from search import search


class Engine:
    """The signatures of an export: source ids to hypotheses.

    Args:
        folder: of the export.
        description: what is in `model.json`.
        threads: 0 leaves it to the library.
        whole_searches: False writes the loop around `step` even where the file has it.
    """

    makes_batches = False

    def __init__(
        self,
        folder: Path,
        description: Mapping[str, Any],
        threads: int = 0,
        whole_searches: bool = True,
    ) -> None:
        self.graphs = description["graphs"]
        self.ids = description["ids"]
        self.whole_searches = whole_searches
        file = folder / self.graphs["step"]["file"]
        self.interpreter = Interpreter(str(file), num_threads=threads or None)
        self.runners = {
            name: self.interpreter.get_signature_runner(graph["signature"])
            for name, graph in self.graphs.items()
        }

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: Mapping[str, Any],
        batch_size: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each row of source ids, which end with the end token."""
        source = padded(sources, self.ids["pad"])
        for name in ("greedy", "beam") if self.whole_searches else ():
            graph = self.graphs.get(name)
            if graph and all(graph.get(n, v) == v for n, v in options.items()):
                return self._search(self.runners[name], source, limits)
        decoder = Decoder(self, source, options["beam_size"], max(limits))
        return search(decoder, limits, self.ids, options)

    def _search(
        self, runner: Any, source: np.ndarray, limits: Sequence[int]
    ) -> list[list[Hypothesis]]:
        """The loop is in the file."""
        limits = np.array(limits, np.int32)
        result = runner(source=source, limits=limits, length=limits.max())
        require_numbers(result["scores"])
        names = ("tokens", "lengths", "log_probabilities", "scores", "finished")
        rows = zip(*(result[name] for name in names), strict=True)
        return [
            [
                Hypothesis(ids[:n].tolist(), float(total), float(score), bool(ended))
                for ids, n, total, score, ended in zip(*row, strict=True)
                if n > 0  # else there are fewer
            ]
            for row in rows
        ]


class Decoder:
    """The step as `search` calls it; keeps the caches of one batch.

    Args:
        engine: with the signatures.
        source: (B, S) int32.
        beam_size: W.
        length: L.
    """

    def __init__(
        self, engine: Engine, source: np.ndarray, beam_size: int, length: int
    ) -> None:
        self.step = engine.runners["step"]
        self.mask = source != engine.ids["pad"]
        self.memory = engine.runners["encoder"](source=source)
        sizes = {"B": len(source), "W": beam_size, "L": length}
        self.cache = empty_caches(engine.graphs["step"], **sizes)

    def __call__(
        self,
        tokens: np.ndarray,
        position: int,
        beams: np.ndarray,
        count: int,
        names: Sequence[str],
    ) -> list[np.ndarray]:
        outputs = self.step(
            tokens=tokens.astype(np.int32),
            position=np.int32(position),
            beams=beams.astype(np.int32),
            count=np.int32(count),
            **self.memory,
            **self.cache,
        )
        self.cache = {name: outputs[f"new_{name}"] for name in self.cache}
        return [outputs[name] for name in names]
