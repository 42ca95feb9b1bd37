"""Diverse beam search: groups of beams, each penalized for tokens of earlier groups.

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
    """Beam indices within groups (B * G, M) as beam indices within rows (B, W)."""
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
    """Whether the flags (B * G,) of all groups of a row are set: (B * G,)."""
    if num_groups == 1:
        return flags
    all_set = ops.all(ops.reshape(flags, (-1, num_groups)), axis=1)
    return repeat(all_set, num_groups)


def best(scores: Tensor, count: int) -> tuple[Tensor, Tensor, Tensor]:
    """The highest scores of (B, W, V): values, tokens and beams, (B, C) each."""
    # First within each hypothesis, then among them: the same as over all W * V at once,
    # ties included, with less sorting.
    per_beam = min(count, scores.shape[-1])
    scores, ids = backends.top_k(scores, per_beam)  # (B, W, per_beam)
    rows, width = ops.shape(scores)[0], scores.shape[1]
    scores = ops.reshape(scores, (rows, width * per_beam))
    ids = ops.reshape(ids, (rows, width * per_beam))
    scores, places = backends.top_k(scores, min(count, width * per_beam))  # (B, C)
    last = ops.take_along_axis(ids, places, axis=1)
    return scores, last, ops.floor_divide(places, per_beam)


def choose(
    scores: Tensor,
    count: int,
    *,
    num_groups: int,
    penalty: float | Tensor,
    end_id: int,
    done: Tensor,
) -> tuple[Tensor, ...]:
    """Continuations of each group, given those of earlier groups.

    The score of a token is reduced by `penalty` for each hypothesis of an earlier group
    that continues with it at this step (Hamming diversity). The penalty affects the
    choice only, not log-probabilities.

    Args:
        scores: (B * G, M, V), log-probabilities of the continued hypotheses.
        count: C.
        num_groups: G.
        penalty: lambda.
        end_id: the id that ends a hypothesis.
        done: (B * G,) bool: groups that have ended.

    Returns:
        Penalized scores, scores, tokens and beams, (B * G, C) each.

    Reference: Vijayakumar et al., 2016, https://arxiv.org/abs/1610.02424, section 4.
    """
    _, width, vocabulary_size = scores.shape
    grouped = ops.reshape(scores, (-1, num_groups, width, vocabulary_size))
    done = ops.reshape(done, (-1, num_groups))
    penalties = ops.zeros_like(grouped[:, 0, 0])  # (B, V)
    group_results = []
    for group in range(num_groups):
        group_scores = grouped[:, group]
        ranks, last, beams = best(
            group_scores - penalty * ops.expand_dims(penalties, 1), count
        )
        flat = ops.reshape(group_scores, (-1, width * vocabulary_size))
        places = beams * vocabulary_size + last
        group_results.append(
            (ranks, ops.take_along_axis(flat, places, axis=1), last, beams)
        )
        continued, places = backends.top_k(
            ops.where(last == end_id, NEVER, ranks), min(width, ranks.shape[1])
        )
        continues = ops.logical_and(
            continued > NEVER, ops.logical_not(done[:, group : group + 1])
        )
        next_tokens = ops.take_along_axis(last, places, axis=1)
        marks = ops.one_hot(next_tokens, vocabulary_size, dtype="float32")
        penalties = penalties + ops.sum(
            marks * ops.expand_dims(ops.cast(continues, "float32"), 2), 1
        )

    def together(parts: Sequence[Tensor]) -> Tensor:  # G times (B, C)
        stacked = ops.stack(parts, axis=1)
        return ops.reshape(stacked, (-1, stacked.shape[2]))

    return tuple(together(parts) for parts in zip(*group_results, strict=True))


def chooser(num_groups: int, end_id: int) -> Callable[..., Any]:
    """The function from (B, W, V) to ranks, scores, tokens and beams, (B, C) each."""

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


def merge(result: SearchResult, num_groups: int) -> SearchResult:
    """A `SearchResult` (B * G, M, ...) as one of all groups (B, W, ...), best first.

    A hypothesis of several groups counts once: its repeats are removed.
    """
    if num_groups == 1:
        return result
    _, join = views(num_groups)
    result = each(join, result)
    scores = _once(result.tokens, result.scores)
    _, places = backends.top_k(scores, scores.shape[1])
    result = result._replace(scores=scores)
    return each(lambda tensor: gather(tensor, places), result)


def _once(tokens: Tensor, scores: Tensor) -> Tensor:
    """The scores (B, W), minus infinity where tokens (B, W, L) repeat."""
    pairs = ops.expand_dims(tokens, 2), ops.expand_dims(tokens, 1)
    same = ops.all(ops.equal(*pairs), axis=3)  # (B, W, W)
    places = ops.arange(scores.shape[1], dtype="int32")
    earlier = places < ops.expand_dims(places, 1)  # (W, W)
    is_filled = ops.expand_dims(scores > NEVER, 1)  # empty places have any tokens
    repeated = ops.logical_and(ops.logical_and(same, earlier), is_filled)
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
