"""Runs encoder and decoder step in ONNX Runtime.

B batch, S source positions, W beam width, L length of the cache.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
from search import Hypothesis
from search import empty_caches
from search import padded
from search import search

#: A cache starts this long and is doubled when it is full: short ones are faster.
FIRST_LENGTH = 16


class Engine:
    """The graphs of an export: source ids to hypotheses.

    Args:
        folder: of the export.
        description: what is in `model.json`.
        threads: 0 leaves it to the library.
    """

    makes_batches = False

    def __init__(
        self, folder: Path, description: Mapping[str, Any], threads: int = 0
    ) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.log_severity_level = 3  # errors
        self.description = description
        self.encoder, self.step = (
            onnxruntime.InferenceSession(
                str(folder / description["graphs"][name]["file"]),
                options,
                providers=["CPUExecutionProvider"],
            )
            for name in ("encoder", "step")
        )

    def search(
        self,
        sources: Sequence[Sequence[int]],
        limits: Sequence[int],
        options: Mapping[str, Any],
        batch_size: int | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses of each row of source ids, which end with the end token."""
        ids = self.description["ids"]
        source = padded(sources, ids["pad"])
        decoder = Decoder(self, source, options["beam_size"], max(limits))
        return search(decoder, limits, ids, options)


class Decoder:
    """The step as `search` calls it; keeps the caches of one batch.

    Args:
        engine: with the graphs.
        source: (B, S) int32.
        beam_size: W.
        limit: the largest L.
    """

    def __init__(
        self, engine: Engine, source: np.ndarray, beam_size: int, limit: int
    ) -> None:
        self.step = engine.step
        self.mask = source != engine.description["ids"]["pad"]
        self.limit = limit
        names = [output.name for output in engine.encoder.get_outputs()]
        outputs = engine.encoder.run_with_ort_values(names, {"source": _value(source)})
        self.memory = dict(zip(names, outputs, strict=True))
        self.length = min(FIRST_LENGTH, limit)
        graph = engine.description["graphs"]["step"]
        sizes = {"B": len(source), "W": beam_size, "L": self.length}
        caches = empty_caches(graph, **sizes)
        self.cache = {name: _value(cache) for name, cache in caches.items()}
        self.new = [f"new_{name}" for name in self.cache]
        shapes = {tensor["name"]: tensor["shape"] for tensor in graph["inputs"]}
        self.growing = [name for name in self.cache if "L" in shapes[name]]

    def __call__(
        self,
        tokens: np.ndarray,
        position: int,
        beams: np.ndarray,
        count: int,
        names: Sequence[str],
    ) -> list[np.ndarray]:
        if position == self.length:
            self._grow()
        inputs = {
            "tokens": tokens.astype(np.int32),
            "position": np.array(position, np.int32),
            "beams": beams.astype(np.int32),
            "count": np.array(count, np.int32),
        }
        inputs = {name: _value(array) for name, array in inputs.items()}
        feed = inputs | self.memory | self.cache
        outputs = self.step.run_with_ort_values([*names, *self.new], feed)
        caches = outputs[len(names) :]
        self.cache = dict(zip(self.cache, caches, strict=True))
        return [value.numpy() for value in outputs[: len(names)]]

    def _grow(self) -> None:
        growth = min(self.length, self.limit - self.length)
        self.length += growth
        padding = [(0, 0), (0, 0), (0, 0), (0, growth), (0, 0)]
        for name in self.growing:
            self.cache[name] = _value(np.pad(self.cache[name].numpy(), padding))


def _value(array: np.ndarray) -> onnxruntime.OrtValue:
    return onnxruntime.OrtValue.ortvalue_from_numpy(array)
