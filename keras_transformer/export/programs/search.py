"""Greedy and beam search around a decoder step, in NumPy. Knows no model.

B batch, W beam width, G groups of beams, M = W / G, C continuations, L most tokens, S
source positions, V vocabulary.

The `Decoder` of `rules.py` is the step. `options` are the section `search` of
`model.json`, which says in words what they do.
"""

import math
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
from rules import NEVER
from rules import Decoder
from rules import Rules


class Hypothesis(NamedTuple):
    """One translation of one row."""

    ids: list[int]  # with the end, where it has one
    log_probability: float
    score: float  # see `Rules.score`, less a coverage penalty
    finished: bool  # False where the limit cut it


def padded(sources: Sequence[Sequence[int]], pad: int) -> np.ndarray:
    """Rows of ids as one array (B, S), filled up with `pad`."""
    array = np.full((len(sources), max(map(len, sources))), pad, np.int32)
    for row, tokens in zip(array, sources, strict=True):
        row[: len(tokens)] = tokens
    return array


def empty_caches(step: Mapping[str, Any], **sizes: int) -> dict[str, np.ndarray]:
    """The caches before the first step, zeros.

    Args:
        step: what `model.json` says of the decoder step.
        sizes: the number that each letter of its shapes stands for.
    """
    return {
        tensor["name"]: np.zeros(
            [sizes.get(size, size) for size in tensor["shape"]], np.float32
        )
        for tensor in step["inputs"]
        if tensor["name"].startswith("cache_")
    }


def search(
    decoder: Decoder,
    limits: Sequence[int],
    ids: Mapping[str, Any],
    options: Mapping[str, Any],
) -> list[list[Hypothesis]]:
    """The hypotheses of each row, best first.

    Args:
        decoder: the step.
        limits: (B,), the most tokens of each row, the end included, at least 1.
        ids: those of `start`, `end` and `suppressed`.
        options: see above. Of `beam_size` 1 it is greedy search.
    """
    limits = np.asarray(limits)
    rules = Rules(ids, options)
    if options["beam_size"] == 1:
        return greedy_search(decoder, limits, rules)
    return beam_search(decoder, limits, rules)


def greedy_search(
    decoder: Decoder, limits: np.ndarray, rules: Rules
) -> list[list[Hypothesis]]:
    """The most probable token, again and again: one hypothesis a row.

    None of a row where the rules forbid every token.
    """
    rows, length, end = len(limits), max(limits), rules.end
    tokens = np.full((rows, length), end, np.int32)
    totals = np.zeros(rows, np.float32)
    lengths = np.zeros(rows, np.int64)
    done = np.zeros(rows, bool)
    last = np.full((rows, 1), rules.ids["start"], np.int32)
    beams = np.zeros((rows, 1), np.int32)
    for position in range(length):
        written = tokens[:, None, :position]
        best, ids, _ = rules.continuations(
            decoder, last, beams, 1, written, ~done, limits
        )
        best, ids, _ = _best(best, ids, 1)
        last, alive = ids, ~done
        tokens[alive, position] = last[alive, 0]
        totals[alive] += best[alive, 0]
        lengths[alive] += 1
        done |= (last[:, 0] == end) | (position + 1 >= limits)
        if done.all():
            break
    scores = rules.score(totals, lengths)
    return [
        [_hypothesis(tokens[i, : lengths[i]], totals[i], scores[i], end)]
        if totals[i] > NEVER
        else []
        for i in range(rows)
    ]


def beam_search(
    decoder: Decoder, limits: np.ndarray, rules: Rules
) -> list[list[Hypothesis]]:
    """The best hypotheses by score; fewer than `top_beams` where fewer ended.

    Finished and live hypotheses are kept apart; of all continuations of the live ones
    the best 2W go on, so that W stay alive however many of them end. A row stops when
    its `top_beams`-th finished hypothesis scores at least as well as the best live one
    could at the row's limit, or by `patience`. At the limit the live ones compete by
    their scores, too. Groups are rows of their own, which stop together.
    """
    options, rows = rules.options, len(limits)
    groups, width = options["num_beam_groups"], options["beam_size"]
    group_width = width // groups
    wanted = min(options["top_beams"], group_width)
    enough = np.inf
    if options["patience"]:
        enough = max(math.ceil(options["patience"] * group_width), wanted)
    state = _Beams(decoder, limits.repeat(groups), rules)
    offsets = np.arange(groups, dtype=np.int32)[:, None] * group_width
    offsets = np.tile(offsets, (rows, 1))
    for position in range(max(limits)):
        best, ids, attention = rules.continuations(
            decoder,
            state.last.reshape(rows, width),
            (state.beams + offsets).reshape(rows, width),
            2 * group_width,
            state.tokens[:, :, :position].reshape(rows, width, -1),
            ~state.done.reshape(rows, -1).all(axis=1),
            limits,
        )
        if attention is not None:
            attention = attention.reshape(rows * groups, group_width, -1)
        best = best.reshape(rows * groups, group_width, -1)
        ids = None if ids is None else ids.reshape(best.shape)
        state.extend(position, best, ids, attention)
        bound = rules.score(state.totals[:, 0], state.limits)
        settled = state.finished_scores[:, wanted - 1] >= bound
        settled |= position + 1 >= state.limits
        patient = state.done | (state.num_ended >= enough)
        settled = (patient | settled).reshape(rows, -1).all(axis=1)
        state.done = patient | settled.repeat(groups)
        if state.done.all():
            break
    state.cut()
    return [state.hypotheses(row, options["top_beams"]) for row in range(rows)]


class _Beams:
    """Live and finished hypotheses of all groups (B * G, M), each best first."""

    def __init__(self, decoder: Decoder, limits: np.ndarray, rules: Rules) -> None:
        rows, length = len(limits), max(limits)
        self.limits = limits
        self.rules = rules
        self.groups = rules.options["num_beam_groups"]
        self.width = width = rules.options["beam_size"] // self.groups
        self.done = np.zeros(rows, bool)
        self.num_ended = np.zeros(rows, np.int64)
        self.last = np.full((rows, width), rules.ids["start"], np.int32)
        self.beams = np.zeros((rows, width), np.int32)
        self.tokens = np.zeros((rows, width, length), np.int32)
        self.totals = np.full((rows, width), NEVER)
        self.totals[:, 0] = 0  # all beams begin alike: only one may go on
        self.lengths = np.zeros(rows, np.int64)
        self.coverage = np.zeros((rows, width), np.float32)
        self.finished_tokens = np.zeros((rows, width, length), np.int32)
        self.finished_totals = np.full((rows, width), NEVER)
        self.finished_scores = np.full((rows, width), NEVER)
        self.finished_lengths = np.zeros((rows, width), np.int64)
        self.mask = decoder.mask.repeat(self.groups, axis=0)[:, None]
        shape = rows, width, decoder.mask.shape[1]
        self.attention = np.zeros(shape, np.float32)  # the sum over the steps

    def extend(
        self,
        position: int,
        best: np.ndarray,
        ids: np.ndarray | None,
        attention: np.ndarray | None,
    ) -> None:
        """The next token of every row that is not done."""
        scores = self.totals[:, :, None] + best
        ranks, scores, last, beams = self._choose(scores, ids)
        tokens = _pick(self.tokens, beams)
        tokens[:, :, position] = last
        coverage = _pick(self._covered(attention), beams)
        ends = last == self.rules.end
        ending = np.where(ends & ~self.done[:, None], scores, NEVER)
        self.num_ended += (ending[:, : self.width] > NEVER).sum(axis=1)
        lengths = np.full(ending.shape, position + 1)
        self._keep(tokens, ending, lengths, coverage)

        live_ranks = np.where(ends, NEVER, ranks)
        places = _best_places(live_ranks, self.width)
        is_live = _pick(live_ranks, places) > NEVER
        totals = np.where(is_live, _pick(scores, places), NEVER)
        alive = ~self.done
        self.tokens[alive] = _pick(tokens, places)[alive]
        self.totals[alive] = totals[alive]
        self.coverage[alive] = _pick(coverage, places)[alive]
        self.lengths[alive] = position + 1
        self.last = _pick(last, places)
        self.beams = _pick(beams, places).astype(np.int32)

    def _covered(self, attention: np.ndarray | None) -> np.ndarray:
        """What the score of each hypothesis loses for the source it left out: (B, W).

        `attention` is that of this step, or None.
        """
        if attention is None:
            return self.coverage
        self.attention = _pick(self.attention, self.beams) + attention
        covered = np.clip(self.attention, np.float32(1e-9), np.float32(1))
        logs = np.where(self.mask, np.log(covered), np.float32(0)).sum(axis=2)
        return np.float32(self.rules.options["coverage_penalty"]) * logs

    def _choose(
        self, scores: np.ndarray, ids: np.ndarray | None
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Ranks, scores, tokens and beams of the best 2M continuations of a group.

        Ranks are what they are chosen by: a group shuns, by `diversity_penalty` each,
        the tokens that those before it take at this step.
        """
        count = 2 * self.width
        if self.groups == 1:
            scores, last, beams = _best(scores, ids, count)
            return scores, scores, last, beams
        penalty = np.float32(self.rules.options["diversity_penalty"])
        grouped = scores.reshape(-1, self.groups, *scores.shape[1:])
        done = self.done.reshape(-1, self.groups)
        taken = np.zeros((len(grouped), scores.shape[2]), np.float32)  # (B, V)
        rows = np.arange(len(grouped))[:, None]
        chosen = []
        for group in range(self.groups):
            group_scores = grouped[:, group]
            ranks, last, beams = _best(
                group_scores - penalty * taken[:, None], None, count
            )
            chosen.append((ranks, group_scores[rows, beams, last], last, beams))
            live_ranks = np.where(last == self.rules.end, NEVER, ranks)
            places = _best_places(live_ranks, self.width)
            continued = (_pick(live_ranks, places) > NEVER) & ~done[:, group, None]
            np.add.at(taken, (rows, _pick(last, places)), continued)
        stacked = [np.stack(parts, axis=1) for parts in zip(*chosen, strict=True)]
        ranks, scores, last, beams = (s.reshape(-1, s.shape[2]) for s in stacked)
        return ranks, scores, last, beams

    def cut(self) -> None:
        """What the limit cuts is among the finished ones if its score is as good."""
        at_limit = (self.lengths >= self.limits)[:, None]
        lengths = np.repeat(self.lengths[:, None], self.width, axis=1)
        totals = np.where(at_limit, self.totals, NEVER)
        self._keep(self.tokens, totals, lengths, self.coverage)

    def _keep(
        self,
        tokens: np.ndarray,
        totals: np.ndarray,
        lengths: np.ndarray,
        coverage: np.ndarray,
    ) -> None:
        """The best of the finished ones and of these, equal ones in order of age."""
        scores = self.rules.score(totals, lengths) + coverage
        scores = np.concatenate([self.finished_scores, scores], 1)
        places = _best_places(scores, self.width)
        self.finished_scores = _pick(scores, places)
        for name, new in (("tokens", tokens), ("totals", totals), ("lengths", lengths)):
            old = getattr(self, f"finished_{name}")
            joined = np.concatenate([old, new], axis=1)
            setattr(self, f"finished_{name}", _pick(joined, places))

    def hypotheses(self, row: int, count: int) -> list[Hypothesis]:
        """Of all groups of a row; what several have found is one hypothesis."""
        by_ids: dict[bytes, Hypothesis] = {}
        for i in range(row * self.groups, (row + 1) * self.groups):
            for place in np.flatnonzero(self.finished_totals[i] > NEVER):
                ids = self.finished_tokens[i, place, : self.finished_lengths[i, place]]
                total = self.finished_totals[i, place]
                score = self.finished_scores[i, place]
                by_ids.setdefault(
                    ids.tobytes(), _hypothesis(ids, total, score, self.rules.end)
                )
        return sorted(by_ids.values(), key=lambda h: -h.score)[:count]


def _best(
    scores: np.ndarray, ids: np.ndarray | None, count: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The highest of scores (B, W, C): values, tokens and beams, (B, count) each."""
    rows, _, size = scores.shape
    scores = scores.reshape(rows, -1)
    places = _best_places(scores, count)
    last = places % size if ids is None else _pick(ids.reshape(rows, -1), places)
    return _pick(scores, places), last, places // size


def _best_places(scores: np.ndarray, count: int) -> np.ndarray:
    """Places of the `count` largest of each row (B, N), ties in order."""
    rows, size = scores.shape
    if size <= 8 * count:
        return np.argsort(-scores, axis=1, kind="stable")[:, :count]
    # Of many, only those are sorted that are among the largest.
    least = np.partition(scores, size - count, axis=1)[:, size - count, None]
    above, equal = scores > least, scores == least
    free = count - above.sum(axis=1, keepdims=True)
    chosen = above | (equal & (np.cumsum(equal, axis=1) <= free))
    places = np.nonzero(chosen)[1].reshape(rows, count)
    order = np.argsort(-_pick(scores, places), axis=1, kind="stable")
    return _pick(places, order)


def _pick(array: np.ndarray, places: np.ndarray) -> np.ndarray:
    """(B, N, ...) at places (B, M) of each row: (B, M, ...)."""
    return array[np.arange(len(places))[:, None], places]


def _hypothesis(
    ids: np.ndarray, total: np.floating, score: np.floating, end: int
) -> Hypothesis:
    tokens = [int(token) for token in ids]
    return Hypothesis(tokens, float(total), float(score), tokens[-1] == end)
