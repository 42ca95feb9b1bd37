"""Searches over one sentence in plain Python, written from their definition.

`logits_of(prefix)` gives the logits (V,) of the token after `prefix`, a tuple of ids
without the start token.
"""

import itertools
from typing import NamedTuple

import numpy as np


class Hypothesis(NamedTuple):
    tokens: tuple[int, ...]
    log_probability: float
    score: float
    finished: bool


def log_softmax(logits):
    shifted = logits - np.max(logits)
    return shifted - np.log(np.sum(np.exp(shifted)))


def penalty(length, alpha):
    return ((5 + length) / 6) ** alpha


def best_first(hypotheses):
    return sorted(hypotheses, key=lambda h: -h.score)  # stable


def beam_search(logits_of, limit, beam_size, top_beams, alpha, end_id, suppressed=()):
    """The best `top_beams`, or fewer."""
    live, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        candidates = []
        for prefix, before in live:
            for token, log_probability in enumerate(log_softmax(logits_of(prefix))):
                if token not in suppressed:
                    candidates.append(((*prefix, token), before + log_probability))
        candidates = sorted(candidates, key=lambda c: -c[1])[: 2 * beam_size]
        live = [c for c in candidates if c[0][-1] != end_id][:beam_size]
        for tokens, total in candidates:
            if tokens[-1] == end_id:
                score = total / penalty(length, alpha)
                finished.append(Hypothesis(tokens, total, score, True))
        finished = best_first(finished)[:beam_size]
        if not live:
            break
        bound = live[0][1] / penalty(limit, alpha)
        if len(finished) >= top_beams and finished[top_beams - 1].score >= bound:
            break
    if not finished:
        finished = [
            Hypothesis(tokens, total, total / penalty(length, alpha), False)
            for tokens, total in live
            if tokens
        ]
    return finished[:top_beams]


def greedy_search(logits_of, limit, alpha, end_id, suppressed=()):
    tokens, total = (), 0.0
    while len(tokens) < limit and end_id not in tokens:
        scores = log_softmax(logits_of(tokens))
        scores[list(suppressed)] = -np.inf
        tokens += (int(np.argmax(scores)),)
        total += scores[tokens[-1]]
    score = total / penalty(len(tokens), alpha)
    return Hypothesis(tokens, total, score, end_id in tokens)


def all_finished(logits_of, limit, vocabulary_size, alpha, end_id):
    """Every hypothesis that ends within the limit, best first."""
    others = [token for token in range(vocabulary_size) if token != end_id]
    finished = []
    for length in range(1, limit + 1):
        for prefix in itertools.product(others, repeat=length - 1):
            tokens = (*prefix, end_id)
            total = sum(
                log_softmax(logits_of(tokens[:i]))[token]
                for i, token in enumerate(tokens)
            )
            score = total / penalty(length, alpha)
            finished.append(Hypothesis(tokens, total, score, True))
    return best_first(finished)
