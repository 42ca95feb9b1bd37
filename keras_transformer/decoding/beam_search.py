"""Beam search with a pool of finished hypotheses. Knows no model.

B batch, W beam width, R hypotheses returned a row, L most tokens, V vocabulary.

Live and finished hypotheses are kept apart: a finished one is never scored again. At
each step every live hypothesis has V continuations, of which the best 2W go on: at most
W of them end, so that W stay alive. A row stops when no live hypothesis can still beat
its R-th best finished one, or at its limit; what happens to other rows of the batch
does not change it.
"""

from typing import Any
from typing import NamedTuple

from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.decoding.greedy_search import suppress
from keras_transformer.decoding.length_penalty import length_penalty as penalty
from keras_transformer.decoding.search_result import SearchResult

_NEVER = -float("inf")


class _State(NamedTuple):
    position: Any  # () int32, tokens written so far
    done: Any  # (B,) bool
    tokens: Any  # (B, W, L) int32, live hypotheses, best first
    log_probabilities: Any  # (B, W) float32
    lengths: Any  # (B,) int32, of the live hypotheses
    cache: Any  # (B, W, ...)
    finished_tokens: Any  # (B, W, L) int32, finished hypotheses, best first
    finished_log_probabilities: Any  # (B, W) float32
    finished_scores: Any  # (B, W) float32, minus infinity: no hypothesis
    finished_lengths: Any  # (B, W) int32


def beam_search(
    decode_step,
    constants,
    cache,
    limits,
    *,
    beam_size,
    length,
    top_beams=1,
    length_penalty=0.6,
    start_id=1,
    end_id=2,
    pad_id=0,
    suppressed=(),
):
    """The best hypotheses by log-probability / length penalty.

    Args:
        decode_step: `(tokens (B, W), position, constants, cache) -> logits
            (B, W, V), cache`.
        constants: nested tensors, once a row, handed to `decode_step`.
        cache: nested tensors (B, W, ...), reordered as hypotheses are.
        limits: (B,) int32, the most tokens of each row, end token included; 0 for a
            row that only fills the batch.
        beam_size: W.
        length: L, the most steps taken, an int, or a scalar tensor where shapes may be
            found while a program runs; at least the largest limit.
        top_beams: R, hypotheses returned, at most W.
        length_penalty: alpha, at least 0, see `length_penalty`.
        start_id: the first input.
        end_id: ends a hypothesis.
        pad_id: fills the tokens after it.
        suppressed: ids that are never chosen. They keep their share of probability.

    Returns:
        `SearchResult` with R hypotheses a row. Where none has ended within its limit,
        the live ones at the limit are returned, with `finished` False. Exact ties go
        to the lower beam, then the lower id.

    Raises:
        ValueError: `top_beams` above `beam_size`, or a negative `length_penalty`.

    Reference: Wu et al., 2016, https://arxiv.org/abs/1609.08144, section 7; Vaswani
    et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
    """
    if not 1 <= top_beams <= beam_size:
        raise ValueError(
            f"top_beams must be between 1 and beam_size {beam_size}, got {top_beams}"
        )
    if length_penalty < 0:
        raise ValueError(f"length_penalty must be at least 0, got {length_penalty}")
    rows = ops.shape(limits)[0]
    first = ops.arange(beam_size) == 0  # all beams begin alike: only one may go on
    state = _State(
        position=ops.zeros((), "int32"),
        done=limits <= 0,
        tokens=ops.full((rows, beam_size, length), pad_id, "int32"),
        log_probabilities=ops.where(first, 0.0, _NEVER) + ops.zeros((rows, 1)),
        lengths=ops.zeros((rows,), "int32"),
        cache=cache,
        finished_tokens=ops.full((rows, beam_size, length), pad_id, "int32"),
        finished_log_probabilities=ops.full((rows, beam_size), _NEVER, "float32"),
        finished_scores=ops.full((rows, beam_size), _NEVER, "float32"),
        finished_lengths=ops.zeros((rows, beam_size), "int32"),
    )

    def condition(state):
        return ops.logical_and(
            state.position < length, ops.logical_not(ops.all(state.done))
        )

    def body(state, constants):
        limits, constants = constants
        last = _last_tokens(state, start_id)
        logits, cache = decode_step(last, state.position, constants, state.cache)
        log_probabilities = suppress(ops.log_softmax(logits, axis=-1), suppressed)
        candidates = _continue(state, log_probabilities, 2 * beam_size)
        state = _keep_finished(state, candidates, end_id, length_penalty)
        state = _keep_live(state, candidates, cache, end_id)
        position = state.position + 1
        best_possible = ops.max(state.log_probabilities, axis=1) / penalty(
            limits, length_penalty
        )
        settled = state.finished_scores[:, top_beams - 1] >= best_possible
        ended = ops.logical_or(settled, position >= limits)
        return state._replace(position=position, done=ops.logical_or(state.done, ended))

    state = backends.loop(condition, body, state, (limits, constants))
    return _result(state, top_beams, length_penalty, pad_id)


class _Candidates(NamedTuple):
    """The best 2W continuations of each row, best first."""

    tokens: Any  # (B, 2W, L) int32
    last: Any  # (B, 2W) int32, their newest token
    beams: Any  # (B, 2W) int32, which hypothesis each continues
    log_probabilities: Any  # (B, 2W) float32


def _last_tokens(state, start_id):
    """The newest token of each live hypothesis: (B, W)."""
    previous = ops.maximum(state.position - 1, 0)
    last = ops.take(state.tokens, previous, axis=2)
    return ops.where(state.position == 0, start_id, last)


def _continue(state, log_probabilities, count):
    """The `count` best continuations of all live hypotheses of a row."""
    # First within each hypothesis, then among them: the same as over all W * V at
    # once, ties included, for less sorting.
    vocabulary_size = log_probabilities.shape[-1]
    each = min(count, vocabulary_size)
    scores = ops.expand_dims(state.log_probabilities, 2) + log_probabilities
    scores, ids = backends.top_k(scores, each)  # (B, W, each)
    rows, width = ops.shape(scores)[0], scores.shape[1]
    scores = ops.reshape(scores, (rows, width * each))
    ids = ops.reshape(ids, (rows, width * each))
    scores, places = backends.top_k(scores, min(count, width * each))  # (B, 2W)
    last = ops.take_along_axis(ids, places, axis=1)
    beams = ops.floor_divide(places, each)
    length = ops.shape(state.tokens)[2]
    here = ops.arange(length, dtype="int32") == state.position  # (L,)
    tokens = ops.where(here, ops.expand_dims(last, 2), _gather(state.tokens, beams))
    return _Candidates(tokens, last, beams, scores)


def _keep_finished(state, candidates, end_id, alpha):
    """The best W of those finished before and those that end now."""
    width = state.finished_scores.shape[1]
    length = state.position + 1
    alive = ops.logical_not(ops.expand_dims(state.done, 1))
    ends = ops.logical_and(candidates.last == end_id, alive)
    log_probabilities = ops.where(ends, candidates.log_probabilities, _NEVER)
    # Not `_NEVER` / penalty: LiteRT makes a finite number of minus infinity.
    scores = candidates.log_probabilities / penalty(length, alpha)
    scores = ops.where(ends, scores, _NEVER)
    scores = ops.concatenate([state.finished_scores, scores], axis=1)  # (B, 3W)
    scores, places = backends.top_k(scores, width)
    lengths = ops.zeros_like(candidates.last) + length

    def merge(finished, new):
        return _gather(ops.concatenate([finished, new], axis=1), places)

    return state._replace(
        finished_tokens=merge(state.finished_tokens, candidates.tokens),
        finished_log_probabilities=merge(
            state.finished_log_probabilities, log_probabilities
        ),
        finished_scores=scores,
        finished_lengths=merge(state.finished_lengths, lengths),
    )


def _keep_live(state, candidates, cache, end_id):
    """The best W continuations that have not ended; rows that are done stay."""
    width = state.log_probabilities.shape[1]
    going = ops.where(candidates.last == end_id, _NEVER, candidates.log_probabilities)
    log_probabilities, places = backends.top_k(going, width)  # (B, W)
    beams = ops.take_along_axis(candidates.beams, places, axis=1)
    done = ops.expand_dims(state.done, 1)
    return state._replace(
        tokens=ops.where(
            ops.expand_dims(done, 2), state.tokens, _gather(candidates.tokens, places)
        ),
        log_probabilities=ops.where(done, state.log_probabilities, log_probabilities),
        lengths=ops.where(state.done, state.lengths, state.position + 1),
        cache=tree.map_structure(lambda tensor: _gather(tensor, beams), cache),
    )


def _gather(tensor, places):
    """(B, W, ...) and places (B, M) to (B, M, ...)."""
    rows, width, *rest = ops.shape(tensor)
    flat = ops.reshape(tensor, (rows * width, *rest))
    offsets = ops.expand_dims(ops.arange(rows, dtype="int32") * width, 1)
    return ops.take(flat, ops.cast(places, "int32") + offsets, axis=0)


def _result(state, top_beams, alpha, pad_id):
    """The finished hypotheses; the live ones of a row that has none."""
    none = ops.expand_dims(ops.max(state.finished_scores, axis=1) == _NEVER, 1)
    lengths = ops.where(none, ops.expand_dims(state.lengths, 1), state.finished_lengths)
    log_probabilities = ops.where(
        none, state.log_probabilities, state.finished_log_probabilities
    )
    tokens = ops.where(ops.expand_dims(none, 2), state.tokens, state.finished_tokens)
    there = ops.logical_and(log_probabilities > _NEVER, lengths > 0)
    log_probabilities = ops.where(there, log_probabilities, _NEVER)
    result = SearchResult(
        tokens=ops.where(ops.expand_dims(there, 2), tokens, pad_id),
        lengths=ops.where(there, lengths, 0),
        log_probabilities=log_probabilities,
        scores=log_probabilities / penalty(lengths, alpha),
        finished=ops.logical_and(there, ops.logical_not(none)),
    )
    return SearchResult(*(tensor[:, :top_beams] for tensor in result))
