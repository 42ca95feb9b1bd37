"""Diverse beam search: groups of beams, each shunning what the others have chosen.

B batch, W beam width, G groups, M = W / G beams of a group, C continuations, V
vocabulary. With one group, nothing here adds an operation.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.decoding.logits_processors import NEVER
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.decoding.search_result import each
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


def views(
    num_groups: int,
) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Two functions: (B, W, ...) to (B * G, M, ...), and back."""
    if num_groups == 1:
        return (lambda tensor: tensor), (lambda tensor: tensor)

    def split(tensor: Tensor) -> Tensor:
        rows, width, *rest = ops.shape(tensor)
        return ops.reshape(tensor, (rows * num_groups, width // num_groups, *rest))

    def join(tensor: Tensor) -> Tensor:
        rows, width, *rest = ops.shape(tensor)
        return ops.reshape(tensor, (rows // num_groups, width * num_groups, *rest))

    return split, join


def of_all(beams: Tensor, num_groups: int) -> Tensor:
    """Beams of groups (B * G, M), counted in each from 0, as beams of rows (B, W)."""
    if num_groups == 1:
        return beams
    _, join = views(num_groups)
    beams = join(beams)
    width = beams.shape[1] // num_groups
    groups = ops.arange(num_groups, dtype="int32")
    return beams + ops.repeat(groups * width, width)


def repeat(limits: Tensor, num_groups: int) -> Tensor:
    """(B,) to (B * G,)."""
    return limits if num_groups == 1 else ops.repeat(limits, num_groups, axis=0)


def in_all(flags: Tensor, num_groups: int) -> Tensor:
    """Of flags (B * G,), whether all groups of a row have theirs: (B * G,)."""
    if num_groups == 1:
        return flags
    whole = ops.all(ops.reshape(flags, (-1, num_groups)), axis=1)
    return repeat(whole, num_groups)


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The highest of scores (B, W, V): values, tokens and beams, (B, C) each."""
    # First within each hypothesis, then among them: the same as over all W * V at
    # once, ties included, for less sorting.
    each = min(count, scores.shape[-1])
    scores, ids = backends.top_k(scores, each)  # (B, W, each)
    rows, width = ops.shape(scores)[0], scores.shape[1]
    scores = ops.reshape(scores, (rows, width * each))
    ids = ops.reshape(ids, (rows, width * each))
    scores, places = backends.top_k(scores, min(count, width * each))  # (B, C)
    last = ops.take_along_axis(ids, places, axis=1)
    return scores, last, ops.floor_divide(places, each)


def choose(
    scores: Tensor,
    count: int,
    *,
    num_groups: int,
    penalty: float | Tensor,
    end_id: int,
    done: Tensor,
) -> tuple[Tensor, ...]:
    """Continuations of each group, knowing those of the groups before it.

    From the score of a token is taken `penalty`, for each hypothesis of an earlier
    group that goes on with it at this step (Hamming diversity). It decides what is
    chosen, and is no part of a log-probability.

    Args:
        scores: (B * G, M, V), log-probabilities of the continued hypotheses.
        count: C.
        num_groups: G.
        penalty: lambda.
        end_id: ends a hypothesis, which then does not go on.
        done: (B * G,) bool: groups that go on with nothing.

    Returns:
        What they were chosen by, their scores, tokens and beams, (B * G, C) each.

    Reference: Vijayakumar et al., 2016, https://arxiv.org/abs/1610.02424, section 4.
    """
    _, width, vocabulary_size = scores.shape
    grouped = ops.reshape(scores, (-1, num_groups, width, vocabulary_size))
    done = ops.reshape(done, (-1, num_groups))
    taken = ops.zeros_like(grouped[:, 0, 0])  # (B, V)
    found = []
    for group in range(num_groups):
        own = grouped[:, group]
        ranks, last, beams = best(own - penalty * ops.expand_dims(taken, 1), count)
        flat = ops.reshape(own, (-1, width * vocabulary_size))
        places = beams * vocabulary_size + last
        found.append((ranks, ops.take_along_axis(flat, places, axis=1), last, beams))
        going, places = backends.top_k(
            ops.where(last == end_id, NEVER, ranks), min(width, ranks.shape[1])
        )
        goes = ops.logical_and(
            going > NEVER, ops.logical_not(done[:, group : group + 1])
        )
        chosen = ops.take_along_axis(last, places, axis=1)
        marks = ops.one_hot(chosen, vocabulary_size, dtype="float32")
        taken = taken + ops.sum(
            marks * ops.expand_dims(ops.cast(goes, "float32"), 2), 1
        )

    def together(parts: Sequence[Tensor]) -> Tensor:  # G times (B, C)
        stacked = ops.stack(parts, axis=1)
        return ops.reshape(stacked, (-1, stacked.shape[2]))

    return tuple(together(parts) for parts in zip(*found, strict=True))


def chooser(num_groups: int, end_id: int) -> Callable[..., Any]:
    """What gives ranks, scores, tokens and beams, (B, C) each, of (B, W, V)."""

    def chosen(
        scores: Tensor, count: int, done: Tensor, penalty: float | Tensor
    ) -> tuple[Tensor, ...]:
        if num_groups > 1:
            return choose(
                scores,
                count,
                num_groups=num_groups,
                penalty=penalty,
                end_id=end_id,
                done=done,
            )
        scores, last, beams = best(scores, count)
        return scores, scores, last, beams

    return chosen


def merge(found: SearchResult, num_groups: int) -> SearchResult:
    """A `SearchResult` (B * G, M, ...) as one of all groups (B, W, ...), best first.

    What several groups have found is one hypothesis: its repeats become none.
    """
    if num_groups == 1:
        return found
    _, join = views(num_groups)
    found = each(join, found)
    scores = _once(found.tokens, found.scores)
    _, places = backends.top_k(scores, scores.shape[1])
    found = found._replace(scores=scores)
    return each(lambda tensor: gather(tensor, places), found)


def _once(tokens: Tensor, scores: Tensor) -> Tensor:
    """The scores (B, W), minus infinity where the tokens (B, W, L) come again."""
    pairs = ops.expand_dims(tokens, 2), ops.expand_dims(tokens, 1)
    same = ops.all(ops.equal(*pairs), axis=3)  # (B, W, W)
    places = ops.arange(scores.shape[1], dtype="int32")
    earlier = places < ops.expand_dims(places, 1)  # (W, W)
    there = ops.expand_dims(scores > NEVER, 1)  # a place without one has any tokens
    repeated = ops.logical_and(ops.logical_and(same, earlier), there)
    return ops.where(ops.any(repeated, axis=2), NEVER, scores)


def gather(tensor: Tensor, places: Tensor) -> Tensor:
    """(B, W, ...) and places (B, M) to (B, M, ...)."""
    rows, width, *rest = ops.shape(tensor)
    flat = ops.reshape(tensor, (rows * width, *rest))
    offsets = ops.expand_dims(ops.arange(rows, dtype="int32") * width, 1)
    return ops.take(flat, ops.cast(places, "int32") + offsets, axis=0)


def gather_all(tensors: Tensors, places: Tensor) -> Tensors:
    """`gather` of nested tensors."""
    return tree.map_structure(lambda tensor: gather(tensor, places), tensors)
