"""Greedy search: the most probable token at each step, independent of the model.

B batch, L most tokens, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.logits_processors import chain
from keras_transformer.decoding.numbers import number
from keras_transformer.decoding.search_loop import search_loop
from keras_transformer.decoding.search_result import OFF
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.decoding.search_result import each
from keras_transformer.decoding.search_result import nan_of
from keras_transformer.decoding.search_result import result_of
from keras_transformer.decoding.search_result import with_forced
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors


class _State(NamedTuple):
    position: Tensor  # () int32, tokens written so far
    tokens: Tensor  # (B, L) int32
    last: Tensor  # (B, 1) int32, the decoder's next input
    log_probabilities: Tensor  # (B,) float32
    lengths: Tensor  # (B,) int32
    finished: Tensor  # (B,) bool: has its end token
    done: Tensor  # (B,) bool: finished, or at its limit
    cache: Tensor
    prefix: Tensor = OFF  # (B,) float32, log-probability of the tokens that are forced


def greedy_search(
    decode_step: Callable[..., Any],
    constants: Tensors,
    cache: Tensors,
    limits: Tensor,
    *,
    length: int | Tensor,
    start_id: int = 1,
    end_id: int = 2,
    pad_id: int = 0,
    suppressed: Sequence[int] = (),
    process: Callable[..., Tensor] | None = None,
    prefix: bool = False,
    normalization: str = "gnmt",
    length_penalty: float = 0.6,
) -> SearchResult:
    """The hypothesis that takes the most probable token at each position.

    Args:
        decode_step: `(tokens (B, 1), position, constants, cache) -> logits
            (B, 1, V), cache`.
        constants: nested tensors passed to `decode_step`. A scalar in
            `constants["numbers"]` replaces `length_penalty`.
        cache: nested tensors passed from step to step.
        limits: (B,) int32, the maximum number of tokens of each row, end token
            included; 0 for a row that only fills the batch.
        length: L, the maximum number of steps, an int, or a scalar tensor where shapes
            may be dynamic; at least the largest limit.
        start_id: the first input token.
        end_id: the id that ends a hypothesis.
        pad_id: the id of positions after the end.
        suppressed: ids that are never chosen; other probabilities are not renormalized.
        process: a function that changes the scores of the next token, see
            `logits_processors.chain`; instead of `suppressed`.
        prefix: whether `constants["prefix"]` holds the first tokens of each row, (B, P)
            int32, see `logits_processors.force_prefix`; `process` forces them.
        normalization: how the reported score is normalized, see `normalized`.
        length_penalty: the alpha of the reported score.

    Returns:
        `SearchResult` with one hypothesis per row. Ties go to the lowest id.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 3.1
    (auto-regressive generation).
    """
    process = process or chain(suppressed=suppressed)
    rows = ops.shape(limits)[0]
    state = _State(
        position=ops.zeros((), "int32"),
        tokens=ops.full((rows, length), pad_id, "int32"),
        last=ops.full((rows, 1), start_id, "int32"),
        log_probabilities=ops.zeros((rows,), "float32"),
        lengths=ops.zeros((rows,), "int32"),
        finished=ops.zeros((rows,), "bool"),
        done=limits <= 0,
        cache=cache,
        prefix=ops.zeros((rows,), "float32") if prefix else OFF,
    )

    def body(state: _State, constants: Tensors) -> _State:
        limits, constants = constants
        logits, cache = decode_step(state.last, state.position, constants, state.cache)
        tokens = ops.expand_dims(state.tokens, 1)
        scores = process(logits, tokens, state.position, constants)
        token, best = _best(scores[:, 0])
        best = best + nan_of(logits)[:, 0]
        token = ops.where(state.done, pad_id, token)
        best = ops.where(state.done, 0.0, best)
        is_current = ops.arange(length, dtype="int32") == state.position  # (L,)
        ended = ops.logical_and(token == end_id, ops.logical_not(state.done))
        finished = ops.logical_or(state.finished, ended)
        position = state.position + 1
        return _State(
            position=position,
            tokens=ops.where(is_current, ops.expand_dims(token, 1), state.tokens),
            last=ops.expand_dims(token, 1),
            log_probabilities=state.log_probabilities + best,
            lengths=ops.where(state.done, state.lengths, position),
            finished=finished,
            done=ops.logical_or(
                state.done, ops.logical_or(finished, position >= limits)
            ),
            cache=cache,
            prefix=with_forced(state, logits, constants),
        )

    state = search_loop(body, state, (limits, constants), rows=rows, length=length)
    alpha = number("length_penalty", length_penalty, constants)
    result = result_of(state, pad_id, normalization, alpha)
    return each(lambda tensor: ops.expand_dims(tensor, 1), result)


def _best(allowed: Tensor) -> tuple[Tensor, Tensor]:
    """Ids (B,) int32 and log-probabilities (B,) of the best tokens of (B, V)."""
    best = ops.max(allowed, axis=-1, keepdims=True)
    # The lowest id of equal logits. Keras' argmax needs an operation that LiteRT lacks.
    vocabulary_size = allowed.shape[-1]
    ids = ops.arange(vocabulary_size, dtype="int32")
    best_ids = ops.where(allowed == best, ids, vocabulary_size - 1)
    return ops.min(best_ids, axis=-1), ops.squeeze(best, -1)
