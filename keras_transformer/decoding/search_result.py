"""Results of searches: hypotheses with their scores.

B batch, R hypotheses a row, L most tokens.
"""

from collections.abc import Callable
from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.length_penalty import normalized
from keras_transformer.decoding.logits_processors import NEVER
from keras_transformer.decoding.logits_processors import forced_log_probabilities
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

_LARGEST = float(np.finfo("float32").max)

OFF = ()  # in place of tensors: a state without them has fewer operations


class SearchResult(NamedTuple):
    """The hypotheses of each row, best first; samples in the order of their keys.

    An empty place has length 0, only pad_id tokens, and minus infinity as
    log-probability and score. Where the model gave NaN, these are NaN.
    """

    tokens: Tensor  # (B, R, L) int32, without the start token; pad_id after the end
    lengths: Tensor  # (B, R) int32, tokens with the end token
    log_probabilities: Tensor  # (B, R) float32, the sum over the tokens
    scores: Tensor  # (B, R) float32, see `normalized`; less a coverage penalty
    finished: Tensor  # (B, R) bool, False where the length limit cut it
    # (B,) float32, the sum over the tokens of its prefix, which no other number here
    # counts; `OFF` without prefixes.
    prefix_log_probabilities: Tensor = OFF


def result_of(
    state: Any, pad_id: int, normalization: str, alpha: float
) -> SearchResult:
    """The `SearchResult` of a state with one hypothesis in each place.

    Args:
        state: `tokens` (..., L), and `lengths`, `log_probabilities` and `finished`
            (...) of a search that has ended.
        pad_id: the tokens of an empty place.
        normalization: see `normalized`.
        alpha: see `normalized`.
    """
    # Minus infinity: every token was forbidden somewhere.
    is_filled = ops.logical_and(state.lengths > 0, state.log_probabilities != NEVER)
    log_probabilities = ops.where(is_filled, state.log_probabilities, NEVER)
    return SearchResult(
        tokens=ops.where(ops.expand_dims(is_filled, -1), state.tokens, pad_id),
        lengths=ops.where(is_filled, state.lengths, 0),
        log_probabilities=log_probabilities,
        scores=normalized(log_probabilities, state.lengths, normalization, alpha),
        finished=ops.logical_and(is_filled, state.finished),
        prefix_log_probabilities=state.prefix,
    )


def each(function: Callable[[Tensor], Tensor], result: SearchResult) -> SearchResult:
    """A `SearchResult` with `function` applied to its tensors (B, R, ...)."""
    *tensors, prefixes = result
    tokens, lengths, logs, scores, finished = map(function, tensors)
    return SearchResult(tokens, lengths, logs, scores, finished, prefixes)


def nan_of(logits: Tensor) -> Tensor:
    """NaN where one of the logits (B, W, V) is not a number, otherwise 0: (B, W).

    Choices among logits skip a NaN on some backends. A softmax turns infinity into NaN
    too, and logits that are all minus infinity.
    """
    # A sum is NaN with any NaN, and with infinity beside minus infinity.
    highest, total = ops.max(logits, axis=-1), ops.sum(logits, axis=-1)
    finite = ops.logical_and(highest >= -_LARGEST, total <= _LARGEST)
    return ops.where(finite, ops.zeros_like(total), float("nan"))


def with_forced(state: Any, logits: Tensor, constants: Tensors) -> Tensor:
    """The `prefix` of a state after one more step: (B,), or `OFF` as before.

    Args:
        state: has `prefix` and `position`.
        logits: (B, W, V), of the model; all hypotheses of a row share its prefix.
        constants: with the `prefix` (B, P).
    """
    if state.prefix is OFF:
        return OFF
    of_one = ops.log_softmax(logits[:, 0], axis=-1)
    forced = forced_log_probabilities(of_one, state.position, constants["prefix"])
    return state.prefix + forced
