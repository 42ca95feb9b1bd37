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


def normalized(total, length, normalization, alpha):
    return (
        total
        / {
            "gnmt": penalty(length, alpha),
            "power": length**alpha,
            "average": length,
            "none": 1.0,
        }[normalization]
    )


def processed(
    logits,
    tokens,
    end_id,
    suppressed=(),
    min_length=0,
    no_repeat_ngram_size=0,
    repetition_penalty=1.0,
    prefix=(),
    first=None,
    limit=None,
):
    """The scores (V,) of the token after `tokens`.

    `first` is a forced first token that the prefix follows; at a `limit` the end is
    forced.
    """
    prefix = (*(() if first is None else (first,)), *prefix)
    if limit is not None and len(tokens) + 1 >= limit > len(prefix):
        scores = np.full(len(logits), -np.inf)
        scores[end_id] = 0.0
        return scores
    if len(tokens) < len(prefix):
        scores = np.full(len(logits), -np.inf)
        scores[prefix[len(tokens)]] = 0.0
        return scores
    scores = np.array(logits)
    for token in set(tokens):
        if scores[token] > 0:
            scores[token] /= repetition_penalty
        else:
            scores[token] *= repetition_penalty
    scores = log_softmax(scores)
    scores[list(suppressed)] = -np.inf
    if len(tokens) + 1 < min_length:
        scores[end_id] = -np.inf
    if no_repeat_ngram_size:
        size = no_repeat_ngram_size
        grams = {tokens[i : i + size] for i in range(len(tokens) - size + 1)}
        for token in range(len(scores)):
            if (*tokens[len(tokens) - size + 1 :], token)[-size:] in grams:
                scores[token] = -np.inf
    return scores


def any_beam_search(
    scores_of,
    limit,
    beam_size,
    top_beams,
    end_id,
    score,
    *,
    coverage_of=lambda tokens: 0.0,
    patience=None,
    num_groups=1,
    diversity_penalty=0.0,
):
    """Goes on to the limit unless patience ends: nothing is given up for being worse.

    At the limit what has not ended counts as what has.

    Args:
        scores_of: processed log-probabilities (V,) after `tokens`.
        score: of a log-probability and a length.
        coverage_of: what a score gains after `tokens` are read.
    """
    width = beam_size // num_groups
    groups = [([((), 0.0)], [], 0) for _ in range(num_groups)]
    for length in range(1, limit + 1):
        taken = {}
        for number, (live, finished, num_ended) in enumerate(groups):
            if patience and num_ended >= max(
                np.ceil(patience * width), min(top_beams, width)
            ):
                continue
            candidates = []
            for tokens, before in live:
                for token, new in enumerate(scores_of(tokens)):
                    if new > -np.inf:
                        rank = before + new - diversity_penalty * taken.get(token, 0)
                        candidates.append((rank, (*tokens, token), before + new))
            candidates = sorted(candidates, key=lambda c: -c[0])[: 2 * width]
            live = [c[1:] for c in candidates if c[1][-1] != end_id][:width]
            ended = [c[1:] for c in candidates if c[1][-1] == end_id]
            for tokens, total in ended + (live if length == limit else []):
                value = score(total, length) + coverage_of(tokens[:-1])
                is_finished = tokens[-1] == end_id
                finished.append(Hypothesis(tokens, total, value, is_finished))
            num_ended += sum(
                tokens[-1] == end_id for _, tokens, _ in candidates[:width]
            )
            finished = best_first(finished)[:width]
            for tokens, _ in live:
                taken[tokens[-1]] = taken.get(tokens[-1], 0) + 1
            groups[number] = live, finished, num_ended
    found = [h for _, finished, _ in groups for h in finished]
    return best_first(without_repeats(found))[:top_beams]


def transformers_beam_search(
    scores_of, limit, beam_size, end_id, alpha, early_stopping, top_beams=None
):
    """The beam search of the library transformers, step by step as it is there.

    Args:
        scores_of: processed log-probabilities (V,) after `tokens`.
        early_stopping: True, False or "never", as there.
    """
    live, finished = [((), 0.0)], []
    for length in range(1, limit + 1):
        candidates = []
        for tokens, before in live:
            for token, new in enumerate(scores_of(tokens)):
                if new > -np.inf:
                    candidates.append(((*tokens, token), before + new))
        candidates = sorted(candidates, key=lambda c: -c[1])[: 2 * beam_size]
        for tokens, total in candidates[:beam_size]:
            if tokens[-1] == end_id or length == limit:
                score = total / length**alpha
                ended = tokens[-1] == end_id
                finished.append(Hypothesis(tokens, total, score, ended))
        finished = best_first(finished)[:beam_size]
        live = [c for c in candidates if c[0][-1] != end_id][:beam_size]
        if len(finished) == beam_size and early_stopping is True:
            break
        longest = limit if early_stopping == "never" else length
        if not live:
            break
        bound = live[0][1] / longest**alpha
        if len(finished) == beam_size and finished[-1].score >= bound:
            break
    return finished[:top_beams]


def without_repeats(hypotheses):
    return list({h.tokens: h for h in reversed(hypotheses)}.values())[::-1]


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
    else:
        finished += [
            Hypothesis(tokens, total, total / penalty(limit, alpha), False)
            for tokens, total in live
            if tokens
        ]
    return best_first(finished)[:top_beams]


def greedy_search(logits_of, limit, alpha, end_id, suppressed=()):
    tokens, total = (), 0.0
    while len(tokens) < limit and end_id not in tokens:
        scores = log_softmax(logits_of(tokens))
        scores[list(suppressed)] = -np.inf
        tokens += (int(np.argmax(scores)),)
        total += scores[tokens[-1]]
    score = total / penalty(len(tokens), alpha)
    return Hypothesis(tokens, total, score, end_id in tokens)


def mixed(bits):
    """The hash of the noise, in whole numbers without end."""
    bits = ((bits ^ (bits >> 16)) * 0x7FEB352D) % 2**32
    bits = ((bits ^ (bits >> 15)) * 0x846CA68B) % 2**32
    return bits ^ (bits >> 16)


def noise(key, position, token):
    first, second = (int(part) % 2**32 for part in key)
    row = mixed((first + position * 0x9E3779B9) % 2**32)
    bits = mixed((token * 0x9E3779B9 + row) % 2**32)
    bits = mixed((bits + second) % 2**32) >> 9
    return -np.log(-np.log((bits + 0.5) / 2**23))


def kept(scores, top_k, top_p):
    """The scores that may be drawn."""
    order = sorted(range(len(scores)), key=lambda token: -scores[token])
    order = order[: top_k or None]
    total = sum(np.exp(scores[token]) for token in order)
    found, mass = np.full(len(scores), -np.inf), 0.0
    for token in order:
        if mass < top_p:
            found[token] = scores[token]
        mass += np.exp(scores[token]) / total
    return found


def sample(
    logits_of,
    process,
    limit,
    key,
    end_id,
    temperature=1.0,
    top_k=0,
    top_p=1.0,
    num_forced=0,
):
    """Tokens drawn with the noise of a key, and the log-probability of those drawn."""
    tokens, total = (), 0.0
    while len(tokens) < limit and end_id not in tokens:
        logits = logits_of(tokens)
        logs = log_softmax(logits)
        scores = kept(process(tokens, logits) / temperature, top_k, top_p)
        noises = [noise(key, len(tokens), token) for token in range(len(logs))]
        tokens += (int(np.argmax(scores + noises)),)
        total += logs[tokens[-1]] if len(tokens) > num_forced else 0.0
    return tokens, total


def all_hypotheses(logits_of, limit, vocabulary_size, alpha, end_id):
    """Every hypothesis that ends within the limit or is cut by it, best first."""
    others = [token for token in range(vocabulary_size) if token != end_id]
    finished = []
    for length in range(1, limit + 1):
        for prefix in itertools.product(others, repeat=length - 1):
            for last in range(vocabulary_size) if length == limit else [end_id]:
                tokens = (*prefix, last)
                total = sum(
                    log_softmax(logits_of(tokens[:i]))[token]
                    for i, token in enumerate(tokens)
                )
                score = total / penalty(length, alpha)
                finished.append(Hypothesis(tokens, total, score, last == end_id))
    return best_first(finished)
