"""Greedy and beam search around a decoder step, in NumPy. Knows no model.

B batch, W beam width, C continuations, L most tokens.

`step(tokens, position, beams, count)` takes the newest token of each hypothesis (B, W),
where it stands, which hypothesis of the step before each one continues (B, W), and
gives log-probabilities and ids (B, W, count) of the best continuations, best first,
ties in order of the ids.
"""

from typing import NamedTuple

import numpy as np

NEVER = np.float32(-np.inf)


class Hypothesis(NamedTuple):
    """One translation of one row."""

    ids: list  # with the end, where it has one
    log_probability: float
    score: float  # log-probability / penalty(length)
    finished: bool  # False where the limit cut it


def penalty(length, alpha):
    """((5 + length) / 6) ^ alpha, the end counted."""
    length = np.asarray(length, np.float32)
    return ((np.float32(5) + length) / np.float32(6)) ** np.float32(alpha)


def padded(sources, pad):
    """Rows of ids as one array (B, S), filled up with `pad`."""
    array = np.full((len(sources), max(map(len, sources))), pad, np.int32)
    for row, tokens in zip(array, sources, strict=True):
        row[: len(tokens)] = tokens
    return array


def empty_caches(step, **sizes):
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


def search(step, limits, ids, beam_size, top_beams, length_penalty):
    """The search of that width; `ids` has those of `start` and `end`."""
    options = {
        "start": ids["start"],
        "end": ids["end"],
        "length_penalty": length_penalty,
    }
    if beam_size == 1:
        return greedy_search(step, limits, **options)
    options |= {"beam_size": beam_size, "top_beams": top_beams}
    return beam_search(step, limits, **options)


def greedy_search(step, limits, start, end, length_penalty):
    """The most probable token, again and again: one hypothesis a row.

    Args:
        step: see above.
        limits: (B,), the most tokens of each row, the end included, at least 1.
        start: the first input.
        end: ends a hypothesis.
        length_penalty: alpha of the score.
    """
    limits = np.asarray(limits)
    rows = len(limits)
    tokens = np.full((rows, max(limits)), end, np.int32)
    totals = np.zeros(rows, np.float32)
    lengths = np.zeros(rows, np.int64)
    done = np.zeros(rows, bool)
    last = np.full((rows, 1), start, np.int32)
    for position in range(max(limits)):
        best, ids = step(last, position, np.zeros((rows, 1), np.int32), 1)
        last = ids[:, :, 0]
        alive = ~done
        tokens[alive, position] = last[alive, 0]
        totals[alive] += best[alive, 0, 0]
        lengths[alive] += 1
        done |= (last[:, 0] == end) | (position + 1 >= limits)
        if done.all():
            break
    scores = totals / penalty(lengths, length_penalty)
    return [
        [_hypothesis(tokens[i, : lengths[i]], totals[i], scores[i], end)]
        for i in range(rows)
    ]


def beam_search(step, limits, start, end, length_penalty, beam_size, top_beams):
    """The best hypotheses by score; fewer than `top_beams` where fewer ended.

    Finished and live hypotheses are kept apart; of all continuations of the live ones
    the best 2W go on, so that W stay alive however many of them end. A row stops when
    its `top_beams`-th finished hypothesis scores at least as well as the best live one
    could at the row's limit. At the limit the live ones compete by their scores, too.

    Args: those of `greedy_search`, W and how many hypotheses to return.
    """
    limits = np.asarray(limits)
    state = _Beams(len(limits), beam_size, max(limits), start)
    for position in range(max(limits)):
        # First the best of each hypothesis, then of all: the same as all at once.
        best, ids = step(state.last, position, state.beams, 2 * beam_size)
        state.extend(position, best, ids, end, length_penalty)
        bound = state.totals[:, 0] / penalty(limits, length_penalty)
        settled = state.finished_scores[:, top_beams - 1] >= bound
        state.done |= settled | (position + 1 >= limits)
        if state.done.all():
            break
    state.cut(limits, length_penalty)
    return [
        state.hypotheses(i, top_beams, end, length_penalty) for i in range(len(limits))
    ]


class _Beams:
    """Live and finished hypotheses of all rows, each best first."""

    def __init__(self, rows, width, length, start):
        self.width = width
        self.done = np.zeros(rows, bool)
        self.last = np.full((rows, width), start, np.int32)
        self.beams = np.zeros((rows, width), np.int32)
        self.tokens = np.zeros((rows, width, length), np.int32)
        self.totals = np.full((rows, width), NEVER)
        self.totals[:, 0] = 0  # all beams begin alike: only one may go on
        self.lengths = np.zeros(rows, np.int64)
        self.finished_tokens = np.zeros((rows, width, length), np.int32)
        self.finished_totals = np.full((rows, width), NEVER)
        self.finished_scores = np.full((rows, width), NEVER)
        self.finished_lengths = np.zeros((rows, width), np.int64)

    def extend(self, position, best, ids, end, alpha):
        """The next token of every row that is not done."""
        rows, _, count = best.shape
        scores = (self.totals[:, :, None] + best).reshape(rows, -1)
        places = _best_places(scores, 2 * self.width)
        last = _pick(ids.reshape(rows, -1), places)
        beams = places // count
        scores = _pick(scores, places)
        tokens = _pick(self.tokens, beams)
        tokens[:, :, position] = last
        ends = last == end
        self._finish(position + 1, tokens, np.where(ends, scores, NEVER), alpha)

        going = np.where(ends, NEVER, scores)
        places = _best_places(going, self.width)
        alive = ~self.done
        self.tokens[alive] = _pick(tokens, places)[alive]
        self.totals[alive] = _pick(going, places)[alive]
        self.lengths[alive] = position + 1
        self.last = _pick(last, places)
        self.beams = _pick(beams, places).astype(np.int32)

    def _finish(self, length, tokens, totals, alpha):
        """The best of those finished before and those that end now."""
        totals = np.where(self.done[:, None], NEVER, totals)
        self._keep(tokens, totals, np.full(totals.shape, length), alpha)

    def cut(self, limits, alpha):
        """What the limit cuts is among the finished ones if its score is as good."""
        totals = np.where((self.lengths >= limits)[:, None], self.totals, NEVER)
        lengths = np.repeat(self.lengths[:, None], self.width, axis=1)
        self._keep(self.tokens, totals, lengths, alpha)

    def _keep(self, tokens, totals, lengths, alpha):
        """The best of the finished ones and of these, equal ones in order of age."""
        scores = totals / penalty(lengths, alpha)
        scores = np.concatenate([self.finished_scores, scores], 1)
        places = _best_places(scores, self.width)
        self.finished_scores = _pick(scores, places)
        for name, new in (("tokens", tokens), ("totals", totals), ("lengths", lengths)):
            old = getattr(self, f"finished_{name}")
            joined = np.concatenate([old, new], axis=1)
            setattr(self, f"finished_{name}", _pick(joined, places))

    def hypotheses(self, row, count, end, alpha):
        totals, lengths = self.finished_totals[row], self.finished_lengths[row]
        tokens = self.finished_tokens[row]
        scores = totals / penalty(lengths, alpha)
        return [
            _hypothesis(tokens[i, : lengths[i]], totals[i], scores[i], end)
            for i in range(count)
            if totals[i] > NEVER
        ]


def _best_places(scores, count):
    """Places of the `count` largest of each row (B, N), ties in order."""
    return np.argsort(-scores, axis=1, kind="stable")[:, :count]


def _pick(array, places):
    """(B, N, ...) at places (B, M) of each row: (B, M, ...)."""
    return array[np.arange(len(places))[:, None], places]


def _hypothesis(ids, total, score, end):
    ids = [int(token) for token in ids]
    return Hypothesis(ids, float(total), float(score), ids[-1] == end)
