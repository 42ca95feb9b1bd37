"""Beam search with a pool of finished hypotheses, independent of the model.

B batch, W beam width, R hypotheses returned a row, L most tokens, V vocabulary, G
groups of beams.

Live and finished hypotheses are kept apart: a finished one is never scored again. At
each step the best 2W of all continuations are kept: at most W of them end, so that W
stay alive. A row stops when no live hypothesis can still beat its R-th best finished
one, or at its limit, where live hypotheses compete with the finished ones by their
scores. Rows do not depend on other rows of the batch.

Groups of beams are separate rows, (B * G, W / G), with two exceptions: the model sees
them together, and the choice in a group depends on the groups before it.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from functools import partial
from typing import Any
from typing import NamedTuple

from keras import ops

from keras_transformer import backends
from keras_transformer.decoding import beam_groups
from keras_transformer.decoding.beam_groups import gather
from keras_transformer.decoding.beam_groups import gather_all
from keras_transformer.decoding.length_penalty import normalized
from keras_transformer.decoding.logits_processors import NEVER
from keras_transformer.decoding.logits_processors import chain
from keras_transformer.decoding.numbers import enough
from keras_transformer.decoding.numbers import number
from keras_transformer.decoding.search_loop import search_loop
from keras_transformer.decoding.search_result import OFF
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.decoding.search_result import each
from keras_transformer.decoding.search_result import nan_of
from keras_transformer.decoding.search_result import with_forced
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


class _State(NamedTuple):
    position: Tensor  # () int32, tokens written so far
    done: Tensor  # (B,) bool
    tokens: Tensor  # (B, W, L) int32, live hypotheses, best first
    log_probabilities: Tensor  # (B, W) float32
    lengths: Tensor  # (B,) int32, of the live hypotheses
    cache: Tensors  # of the live hypotheses of all groups
    finished_tokens: Tensor  # (B, W, L) int32, finished hypotheses, best first
    finished_log_probabilities: Tensor  # (B, W) float32
    finished_scores: Tensor  # (B, W) float32, minus infinity: no hypothesis
    finished_lengths: Tensor  # (B, W) int32
    coverage: Tensor = OFF  # (B, W) float32, at most 0, of the live hypotheses
    num_ended: Tensor = OFF  # (B,) int32, hypotheses that have ended so far
    prefix: Tensor = OFF  # (B,) float32, log-probability of the tokens that are forced


def beam_search(
    decode_step: Callable[..., Any],
    constants: Tensors,
    cache: Tensors,
    limits: Tensor,
    *,
    beam_size: int,
    length: int | Tensor,
    top_beams: int = 1,
    normalization: str = "gnmt",
    length_penalty: float = 0.6,
    patience: float | None = None,
    rules: str = "default",
    coverage: Callable[..., Tensor] | None = None,
    reorder: Callable[..., Tensors] = gather_all,
    num_beam_groups: int = 1,
    diversity_penalty: float = 0.0,
    start_id: int = 1,
    end_id: int = 2,
    pad_id: int = 0,
    suppressed: Sequence[int] = (),
    process: Callable[..., Tensor] | None = None,
    prefix: bool = False,
) -> SearchResult:
    """The best hypotheses by score: log-probability, normalized for length.

    The search of a row ends where no better result is possible. Log-probabilities are
    at most 0 and fall as tokens are added, each `normalization` divides by a number
    that grows with the length, and a coverage penalty is at most 0. So no continuation
    of a live hypothesis can score above the best live log-probability normalized at the
    row's limit. Once R finished hypotheses reach that bound, they are final.

    Args:
        decode_step: `(tokens (B, W), position, constants, cache) -> logits
            (B, W, V), cache`.
        constants: nested tensors, one per row, passed to `decode_step`. Scalars in
            `constants["numbers"]` replace `length_penalty`, `diversity_penalty` and
            `patience` (there: how many hypotheses have to end); the arguments then only
            say that they are used.
        cache: nested tensors, reordered with the hypotheses.
        limits: (B,) int32, the maximum number of tokens of each row, end token
            included; 0 for a row that only fills the batch.
        beam_size: W.
        length: L, the maximum number of steps, an int, or a scalar tensor where shapes
            may be dynamic; at least the largest limit.
        top_beams: R, the number of hypotheses returned, at most W.
        normalization: see `normalized`.
        length_penalty: alpha, at least 0, see `length_penalty`.
        patience: also ends a row once patience * W hypotheses have ended, and at least
            R; with groups, each group counts for its part of W. An ending hypothesis
            counts if it is among the best W continuations of its step.
        rules: whose rules hold. `"transformers"` are those of that library: an end
            counts only among the best W continuations, and so does at the limit what
            has not ended; a row goes on until W have ended and none of them can be
            bettered. `"transformers_heuristic"` ends it, too, once the best live score
            is no better at its current length. They have no groups.
        coverage: a function of cache and constants after a step, whose value (B, W), at
            most 0, is added to the score of each hypothesis.
        reorder: `(cache, beams (B, W)) -> cache` after which hypothesis w continues
            `beams[:, w]`.
        num_beam_groups: G; must divide W.
        diversity_penalty: see `beam_groups.choose`.
        start_id: the first input token.
        end_id: the id that ends a hypothesis.
        pad_id: the id of positions after the end.
        suppressed: ids that are never chosen; other probabilities are not renormalized.
        process: a function that changes the scores of the next token, see
            `logits_processors.chain`; instead of `suppressed`.
        prefix: whether `constants["prefix"]` holds the first tokens of each row, (B, P)
            int32, see `logits_processors.force_prefix`; `process` forces them.

    Returns:
        `SearchResult` with R hypotheses per row; duplicates of several groups count
        once. `finished` is False where the limit cut a hypothesis. Exact ties go to the
        hypothesis that ended first, then to the lower beam, then to the lower id.

    Raises:
        ValueError: `top_beams` above `beam_size`, a negative `length_penalty`, or
            unknown `rules`.

    Reference: Wu et al., 2016, https://arxiv.org/abs/1609.08144, section 7; Vaswani
    et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1; Kasai et al., 2022,
    https://arxiv.org/abs/2204.05424; Vijayakumar et al., 2016,
    https://arxiv.org/abs/1610.02424.
    """
    _check(beam_size, top_beams, length_penalty)
    theirs = _are_theirs(rules, num_beam_groups)
    process = process or chain(suppressed=suppressed)
    split, join = beam_groups.views(num_beam_groups)
    choose = beam_groups.chooser(num_beam_groups, end_id)
    width = beam_size // num_beam_groups
    # Of each group, those that may be returned; theirs wait for all.
    wanted = width if theirs else min(top_beams, width)
    rows = ops.shape(limits)[0]
    limits = beam_groups.repeat(limits, num_beam_groups)
    state = _start(width, length, limits, cache, pad_id)
    state = _with_sums(state, rows, coverage is not None, patience is not None, prefix)
    most = enough(patience, width, top_beams)

    def score(log_probability: Tensor, length: Tensor, constants: Tensors) -> Tensor:
        alpha = number("length_penalty", length_penalty, constants)
        return normalized(log_probability, length, normalization, alpha)

    def body(state: _State, constants: Tensors) -> _State:
        limits, constants = constants
        own_score = partial(score, constants=constants)
        diversity = number("diversity_penalty", diversity_penalty, constants)
        last = join(_last_tokens(state, start_id))
        logits, cache = decode_step(last, state.position, constants, state.cache)
        forced = with_forced(state, logits, constants)
        logs = process(logits, join(state.tokens), state.position, constants)
        added = OFF if coverage is None else split(coverage(cache, constants))
        choice = partial(choose, count=2 * width, done=state.done, penalty=diversity)
        candidates = _continue(state, split(logs), added, choice)
        ends = _ends(state, candidates, end_id, limits if theirs else None)
        state = _keep_finished(state, candidates, ends, own_score)
        state, beams = _keep_live(state, candidates, end_id, split(nan_of(logits)))
        cache = reorder(cache, beam_groups.of_all(beams, num_beam_groups))
        position = state.position + 1
        state = state._replace(position=position, cache=cache, prefix=forced)
        longest = limits if rules != "transformers_heuristic" else position
        best_possible = own_score(ops.max(state.log_probabilities, axis=1), longest)
        settled = state.finished_scores[:, wanted - 1] >= best_possible
        settled = ops.logical_or(settled, state.position >= limits)
        ended = number("patience", most, constants)
        return state._replace(done=_done(state, settled, ended, num_beam_groups))

    state = search_loop(body, state, (limits, constants), rows=rows, length=length)
    if theirs:
        hypotheses = _finished(state, end_id)
    else:
        hypotheses = _hypotheses(state, limits, partial(score, constants=constants))
    hypotheses = beam_groups.merge(hypotheses, num_beam_groups)
    return _result(hypotheses, state, top_beams, pad_id)


def _check(beam_size: int, top_beams: int, length_penalty: float) -> None:
    if not 1 <= top_beams <= beam_size:
        raise ValueError(
            f"top_beams must be between 1 and beam_size {beam_size}, got {top_beams}"
        )
    if length_penalty < 0:
        raise ValueError(f"length_penalty must be at least 0, got {length_penalty}")


def _are_theirs(rules: str, num_beam_groups: int) -> bool:
    """Whether the rules are those of transformers."""
    if rules == "default":
        return False
    if rules not in ("transformers", "transformers_heuristic"):
        raise ValueError(
            f'rules must be "default", "transformers" or "transformers_heuristic", got '
            f"{rules!r}"
        )
    if num_beam_groups > 1:
        raise ValueError(f"rules {rules!r} have no groups, got {num_beam_groups}")
    return True


def _start(
    width: int, length: int | Tensor, limits: Tensor, cache: Tensors, pad_id: int
) -> _State:
    rows = ops.shape(limits)[0]
    first = ops.arange(width) == 0  # all beams start equal: only one may continue
    return _State(
        position=ops.zeros((), "int32"),
        done=limits <= 0,
        tokens=ops.full((rows, width, length), pad_id, "int32"),
        log_probabilities=ops.where(first, 0.0, NEVER) + ops.zeros((rows, 1)),
        lengths=ops.zeros((rows,), "int32"),
        cache=cache,
        finished_tokens=ops.full((rows, width, length), pad_id, "int32"),
        finished_log_probabilities=ops.full((rows, width), NEVER, "float32"),
        finished_scores=ops.full((rows, width), NEVER, "float32"),
        finished_lengths=ops.zeros((rows, width), "int32"),
    )


def _with_sums(
    state: _State, rows: int | Tensor, coverage: bool, patience: bool, prefix: bool
) -> _State:
    """The state with the optional tensors that are needed."""
    return state._replace(
        coverage=ops.zeros_like(state.log_probabilities) if coverage else OFF,
        num_ended=ops.zeros_like(state.lengths) if patience else OFF,
        prefix=ops.zeros((rows,), "float32") if prefix else OFF,
    )


class _Candidates(NamedTuple):
    """The best 2W continuations of each row, best first."""

    tokens: Tensor  # (B, 2W, L) int32
    last: Tensor  # (B, 2W) int32, their newest token
    ranks: Tensor  # (B, 2W) float32, falling: what they were chosen by
    log_probabilities: Tensor  # (B, 2W) float32
    beams: Tensor  # (B, 2W) int32, which hypothesis each continues
    coverage: Tensor  # (B, 2W) float32, of that one


def _last_tokens(state: _State, start_id: int) -> Tensor:
    """The newest token of each live hypothesis: (B, W)."""
    previous = ops.maximum(state.position - 1, 0)
    last = ops.take(state.tokens, previous, axis=2)
    return ops.where(state.position == 0, start_id, last)


def _continue(
    state: _State,
    log_probabilities: Tensor,
    coverage: Tensor,
    choose: Callable[..., Any],
) -> _Candidates:
    """The best continuations of all live hypotheses of a row."""
    scores = ops.expand_dims(state.log_probabilities, 2) + log_probabilities
    ranks, scores, last, beams = choose(scores)
    length = ops.shape(state.tokens)[2]
    is_current = ops.arange(length, dtype="int32") == state.position  # (L,)
    tokens = ops.where(
        is_current, ops.expand_dims(last, 2), gather(state.tokens, beams)
    )
    if coverage is not OFF:
        coverage = ops.take_along_axis(coverage, beams, axis=1)
    return _Candidates(tokens, last, ranks, scores, beams, coverage)


def _ends(
    state: _State, candidates: _Candidates, end_id: int, limits: Tensor | None
) -> Tensor:
    """Which candidates (B, 2W) end at this step.

    Under the rules of transformers, for which `limits` (B,) are given, those alone that
    are among the first W, and of them all that are at their limit.
    """
    alive = ops.logical_not(ops.expand_dims(state.done, 1))
    ends = candidates.last == end_id
    if limits is not None:
        ends = ops.logical_or(ends, ops.expand_dims(state.position + 1 >= limits, 1))
        places = ops.arange(candidates.last.shape[1], dtype="int32")
        ends = ops.logical_and(ends, places < state.finished_scores.shape[1])
    return ops.logical_and(ends, alive)


def _keep_finished(
    state: _State, candidates: _Candidates, ends: Tensor, score: Callable[..., Tensor]
) -> _State:
    """The best W of the finished hypotheses and those that end at this step."""
    width = state.finished_scores.shape[1]
    length = state.position + 1
    log_probabilities = ops.where(ends, candidates.log_probabilities, NEVER)
    # Not computed from `NEVER`: LiteRT turns minus infinity into a finite number.
    scores = score(candidates.log_probabilities, length)
    if state.coverage is not OFF:
        scores = scores + candidates.coverage
    scores = ops.where(ends, scores, NEVER)
    if state.num_ended is not OFF:
        ending = ops.cast(scores[:, :width] > NEVER, "int32")
        num_ended = state.num_ended + ops.sum(ending, axis=1)
        state = state._replace(num_ended=num_ended)
    scores = ops.concatenate([state.finished_scores, scores], axis=1)  # (B, 3W)
    scores, places = backends.top_k(scores, width)
    lengths = ops.zeros_like(candidates.last) + length

    def merge(finished: Tensor, new: Tensor) -> Tensor:
        return gather(ops.concatenate([finished, new], axis=1), places)

    return state._replace(
        finished_tokens=merge(state.finished_tokens, candidates.tokens),
        finished_log_probabilities=merge(
            state.finished_log_probabilities, log_probabilities
        ),
        finished_scores=scores,
        finished_lengths=merge(state.finished_lengths, lengths),
    )


def _keep_live(
    state: _State, candidates: _Candidates, end_id: int, nan: Tensor
) -> tuple[_State, Tensor]:
    """The best W continuations that have not ended; finished rows stay unchanged.

    Also which hypotheses (B, W) they continue. A NaN in one makes all of them NaN.
    """
    width = state.log_probabilities.shape[1]
    live_ranks = ops.where(candidates.last == end_id, NEVER, candidates.ranks)
    log_probabilities, places = backends.top_k(live_ranks, width)  # (B, W)
    if candidates.ranks is not candidates.log_probabilities:
        log_probability = ops.take_along_axis(
            candidates.log_probabilities, places, axis=1
        )
        log_probabilities = ops.where(log_probabilities > NEVER, log_probability, NEVER)
    log_probabilities = log_probabilities + ops.sum(nan, axis=1, keepdims=True)
    beams = ops.take_along_axis(candidates.beams, places, axis=1)
    done = ops.expand_dims(state.done, 1)
    if state.coverage is not OFF:
        coverage = ops.take_along_axis(candidates.coverage, places, axis=1)
        coverage = ops.where(done, state.coverage, coverage)
        state = state._replace(coverage=coverage)
    state = state._replace(
        tokens=ops.where(
            ops.expand_dims(done, 2), state.tokens, gather(candidates.tokens, places)
        ),
        log_probabilities=ops.where(done, state.log_probabilities, log_probabilities),
        lengths=ops.where(state.done, state.lengths, state.position + 1),
    )
    return state, beams


def _done(
    state: _State, settled: Tensor, enough: int | Tensor | None, num_groups: int
) -> Tensor:
    """Which groups (B,) end: each by patience, otherwise those of a row together."""
    done = state.done
    if enough is not None:
        done = ops.logical_or(done, state.num_ended >= enough)
    # A settled group keeps searching until its whole row ends, because later groups are
    # still penalized for its tokens.
    settled = beam_groups.in_all(ops.logical_or(done, settled), num_groups)
    return ops.logical_or(done, settled)


def _hypotheses(
    state: _State, limits: Tensor, score: Callable[..., Tensor]
) -> SearchResult:
    """The best W of the finished hypotheses and, at the limit, the live ones.

    A `SearchResult` of each group (B, W).
    """
    width = state.finished_scores.shape[1]
    lengths = ops.zeros_like(state.finished_lengths)
    lengths = lengths + ops.expand_dims(state.lengths, 1)
    cut = ops.logical_and(state.lengths >= limits, limits > 0)
    cut = ops.logical_and(ops.expand_dims(cut, 1), state.log_probabilities > NEVER)
    scores = score(state.log_probabilities, lengths)
    if state.coverage is not OFF:
        scores = scores + state.coverage
    scores = ops.where(cut, scores, NEVER)
    scores = ops.concatenate([state.finished_scores, scores], axis=1)
    scores, places = backends.top_k(scores, width)
    broken = state.log_probabilities != state.log_probabilities
    broken = ops.any(broken, axis=1, keepdims=True)
    scores = ops.where(broken, float("nan"), scores)

    def merge(finished: Tensor, live: Tensor) -> Tensor:
        return gather(ops.concatenate([finished, live], axis=1), places)

    return SearchResult(
        tokens=merge(state.finished_tokens, state.tokens),
        lengths=merge(state.finished_lengths, lengths),
        log_probabilities=merge(
            state.finished_log_probabilities, state.log_probabilities
        ),
        scores=scores,
        finished=places < width,
    )


def _finished(state: _State, end_id: int) -> SearchResult:
    """The finished hypotheses, of which some may be at the limit without an end."""
    broken = state.log_probabilities != state.log_probabilities
    broken = ops.any(broken, axis=1, keepdims=True)
    last = ops.maximum(ops.expand_dims(state.finished_lengths - 1, 2), 0)
    last = ops.take_along_axis(state.finished_tokens, last, axis=2)[:, :, 0]
    return SearchResult(
        tokens=state.finished_tokens,
        lengths=state.finished_lengths,
        log_probabilities=state.finished_log_probabilities,
        scores=ops.where(broken, float("nan"), state.finished_scores),
        finished=last == end_id,
    )


def _result(
    hypotheses: SearchResult, state: _State, top_beams: int, pad_id: int
) -> SearchResult:
    """The best R hypotheses; empty places hold none."""
    is_filled = hypotheses.scores != NEVER
    result = SearchResult(
        tokens=ops.where(ops.expand_dims(is_filled, 2), hypotheses.tokens, pad_id),
        lengths=ops.where(is_filled, hypotheses.lengths, 0),
        log_probabilities=ops.where(is_filled, hypotheses.log_probabilities, NEVER),
        scores=hypotheses.scores,
        finished=ops.logical_and(is_filled, hypotheses.finished),
        prefix_log_probabilities=state.prefix,
    )
    return each(lambda tensor: tensor[:, :top_beams], result)
