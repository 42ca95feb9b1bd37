"""Rules of a search in NumPy: what may come next, and what a hypothesis is worth.

B batch, W beam width, C continuations, S source positions, V vocabulary, n tokens so
far. `model.json` says the same in words.
"""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import numpy as np

NEVER = np.float32(-np.inf)


def require_numbers(values: np.ndarray) -> None:
    """Refuses NaN, which no model that works gives: it would make a plausible text."""
    if np.isnan(values).any():
        raise ValueError(
            "the model gives NaN: its weights are not finite, or numbers on the way "
            "are too large; export a model that works"
        )


class Decoder(Protocol):
    """The decoder step of one batch, called once for each token.

    Attributes:
        mask: (B, S) bool, true where the source is no padding.
    """

    mask: np.ndarray

    def __call__(
        self,
        tokens: np.ndarray,
        position: int,
        beams: np.ndarray,
        count: int,
        names: Sequence[str],
    ) -> list[np.ndarray]:
        """Runs one step.

        Args:
            tokens: (B, W), the newest token of each hypothesis.
            position: of these tokens.
            beams: (B, W), the hypothesis of the step before that each one continues.
            count: C.
            names: the outputs to return, of these: `best_log_probabilities` and
                `best_ids` (B, W, C) of the best continuations, best first, ties in
                order of the ids, `logits` (B, W, V) and `attention` (B, W, S).

        Returns:
            An array for each of `names`.
        """


class Rules:
    """What may come next, and what a hypothesis is worth.

    Args:
        ids: of `start`, `end` and `suppressed`.
        options: the section `search` of `model.json`.
    """

    def __init__(self, ids: Mapping[str, Any], options: Mapping[str, Any]) -> None:
        self.ids = ids
        self.end = ids["end"]
        self.options = options
        # Else the best continuations of the step are those of the search.
        self.needs_logits = (
            options["min_length"] > 1
            or options["no_repeat_ngram_size"] > 0
            or options["repetition_penalty"] != 1
            or options["num_beam_groups"] > 1
        )

    def score(self, totals: np.ndarray, lengths: np.ndarray) -> np.ndarray:
        """Log-probabilities, divided for the lengths, the end counted."""
        kind = self.options["normalization"]
        lengths = np.asarray(lengths, np.float32)
        if kind == "gnmt":
            alpha = np.float32(self.options["length_penalty"])
            return totals / ((np.float32(5) + lengths) / np.float32(6)) ** alpha
        if kind == "power":
            alpha = np.float32(self.options["length_penalty"])
            return totals / np.maximum(lengths, np.float32(1)) ** alpha
        if kind == "average":
            return totals / np.maximum(lengths, np.float32(1))
        if kind == "none":
            return totals
        raise ValueError(f"search.normalization {kind!r} is none that is known")

    def continuations(
        self,
        decoder: Decoder,
        last: np.ndarray,
        beams: np.ndarray,
        count: int,
        tokens: np.ndarray,
        alive: np.ndarray,
        limits: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray | None, np.ndarray | None]:
        """What may come next, and what the step attends to.

        Args:
            decoder: the step.
            last: (B, W), the newest tokens.
            beams: (B, W), which hypotheses they continue.
            count: C.
            tokens: (B, W, n), all so far.
            alive: (B,) bool: rows that count.
            limits: (B,), the most tokens of each row.

        Returns:
            Log-probabilities and ids (B, W, C), C being V where the ids are None, and
            the attention, None where no option asks for it.
        """
        position = tokens.shape[2]
        names = ["best_log_probabilities", "best_ids"]
        if self.needs_logits:
            names = ["logits"]
        if self.options["coverage_penalty"]:
            names.append("attention")
        arrays = decoder(last, position, beams, count, names)
        outputs = dict(zip(names, arrays, strict=True))
        attention = outputs.get("attention")
        if self.needs_logits:
            require_numbers(outputs["logits"][alive])
            best = self._allowed(outputs["logits"], tokens)
            best, ids = self._forced(best, None, position, limits)
            return best, ids, attention
        best = outputs["best_log_probabilities"]
        # Some runtimes pass a NaN over, and take what is never chosen.
        require_numbers(np.where(best[alive, :, 0] == NEVER, np.nan, best[alive, :, 0]))
        best, ids = self._forced(best, outputs["best_ids"], position, limits)
        return best, ids, attention

    def _forced(
        self,
        best: np.ndarray,
        ids: np.ndarray | None,
        position: int,
        limits: np.ndarray,
    ) -> tuple[np.ndarray, np.ndarray | None]:
        """Continuations with what is forced in place of others, at no cost."""
        start = self.options["forced_start"]
        if start is not None and position == 0:
            best, ids = _alone(best, ids, np.full(len(limits), True), start)
        elif self.options["forced_end"]:
            best, ids = _alone(best, ids, position + 1 >= limits, self.end)
        return best, ids

    def _allowed(self, logits: np.ndarray, tokens: np.ndarray) -> np.ndarray:
        """Log-probabilities (B, W, V), minus infinity of what is forbidden."""
        factor = np.float32(self.options["repetition_penalty"])
        if factor != 1:
            seen = np.take_along_axis(logits, tokens, axis=2)
            lower = np.where(seen > 0, seen / factor, seen * factor)
            logits = logits.copy()
            np.put_along_axis(logits, tokens, lower, axis=2)
        logs = logits - logits.max(axis=2, keepdims=True)
        logs -= np.log(np.exp(logs).sum(axis=2, keepdims=True))
        logs[:, :, self.ids["suppressed"]] = NEVER
        if tokens.shape[2] + 1 < self.options["min_length"]:
            logs[:, :, self.end] = NEVER
        size = self.options["no_repeat_ngram_size"]
        if 0 < size <= tokens.shape[2]:
            _forbid_repeated(logs, tokens, size)
        return logs


def _alone(
    best: np.ndarray, ids: np.ndarray | None, rows: np.ndarray, token: int
) -> tuple[np.ndarray, np.ndarray | None]:
    """Continuations of which some rows (B,) have `token` alone."""
    place = token if ids is None else 0
    chosen = np.full_like(best, NEVER)
    chosen[:, :, place] = 0
    rows = rows[:, None, None]
    if ids is not None:
        ids = np.where(rows & (np.arange(ids.shape[2]) == place), token, ids)
    return np.where(rows, chosen, best), ids


def _forbid_repeated(logs: np.ndarray, tokens: np.ndarray, size: int) -> None:
    """What would make the last `size` tokens a sequence that came before."""
    windows = np.lib.stride_tricks.sliding_window_view(tokens, size, axis=2)
    newest = tokens[:, :, None, tokens.shape[2] - size + 1 :]
    repeats = (windows[..., :-1] == newest).all(axis=3)
    rows, beams, places = np.nonzero(repeats)
    logs[rows, beams, windows[rows, beams, places, -1]] = NEVER
