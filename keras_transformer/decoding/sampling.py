"""Sampling: tokens drawn at random with the model's probabilities.

B batch, R samples a row, L most tokens, V vocabulary.

The random numbers are integer functions of a key, the position and the token, without a
generator of the framework. So a seed gives the same text on every backend, whatever the
batch.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops

from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.decoding.logits_processors import NEVER
from keras_transformer.decoding.logits_processors import chain
from keras_transformer.decoding.logits_processors import forced_tokens
from keras_transformer.decoding.logits_processors import keep_top_k
from keras_transformer.decoding.logits_processors import keep_top_p
from keras_transformer.decoding.numbers import number
from keras_transformer.decoding.search_loop import search_loop
from keras_transformer.decoding.search_result import OFF
from keras_transformer.decoding.search_result import SearchResult
from keras_transformer.decoding.search_result import nan_of
from keras_transformer.decoding.search_result import result_of
from keras_transformer.decoding.search_result import with_forced
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

# Odd multipliers that spread bits, as signed 32-bit integers.
_FIRST, _SECOND = np.array([0x7FEB352D, 0x846CA68B], "uint32").view("int32")
_STEP = np.array([0x9E3779B9], "uint32").view("int32")[0]


class _State(NamedTuple):
    position: Tensor  # () int32, tokens written so far
    tokens: Tensor  # (B, R, L) int32
    last: Tensor  # (B, R) int32, the decoder's next input
    log_probabilities: Tensor  # (B, R) float32
    lengths: Tensor  # (B, R) int32
    finished: Tensor  # (B, R) bool: has its end token
    done: Tensor  # (B, R) bool: finished, or at its limit
    cache: Tensor
    prefix: Tensor = OFF  # (B,) float32, log-probability of the tokens that are forced


def sample(
    decode_step: Callable[..., Any],
    constants: Tensors,
    cache: Tensors,
    limits: Tensor,
    keys: Tensor,
    *,
    length: int | Tensor,
    temperature: float = 1.0,
    top_k: int = 0,
    top_p: float = 1.0,
    start_id: int = 1,
    end_id: int = 2,
    pad_id: int = 0,
    process: Callable[..., Tensor] | None = None,
    prefix: bool = False,
    first: bool = False,
    forced_end: bool = False,
    normalization: str = "gnmt",
    length_penalty: float = 0.6,
) -> SearchResult:
    """Hypotheses whose tokens are sampled one by one.

    Tokens are drawn from the model's distribution, changed by `process`, divided by the
    temperature, restricted to the best `top_k` and of these to `top_p`, and
    renormalized. The reported log-probability is the model's.

    Args:
        decode_step: `(tokens (B, R), position, constants, cache) -> logits
            (B, R, V), cache`.
        constants: nested tensors passed to `decode_step`. Scalars in
            `constants["numbers"]` replace `temperature`, `top_p` and `length_penalty`;
            the arguments then only say that they are used.
        cache: nested tensors passed from step to step.
        limits: (B,) int32, the maximum number of tokens of each row, end token
            included; 0 for a row that only fills the batch.
        keys: (B, R, 2) int32, see `sample_keys`.
        length: L, the maximum number of steps; at least the largest limit.
        temperature: the divisor of the log-probabilities.
        top_k: see `logits_processors.keep_top_k`; 0 is off.
        top_p: see `logits_processors.keep_top_p`; 1 is off.
        start_id: the first input token.
        end_id: the id that ends a hypothesis.
        pad_id: the id of positions after the end.
        process: see `logits_processors.chain`.
        prefix: whether `constants["prefix"]` holds the first tokens of each row, (B, P)
            int32, see `logits_processors.force_prefix`; `process` forces them.
        first: whether `constants["forced_start"]` holds the first token of each row,
            see `logits_processors.force_start`; `process` forces it.
        forced_end: whether `process` forces the end at the limit, see
            `logits_processors.force_end`.
        normalization: how the reported score is normalized, see `normalized`.
        length_penalty: the alpha of the reported score.

    Returns:
        `SearchResult` with R hypotheses per row, in the order of their keys.

    Reference: Gumbel, 1954, as in Maddison et al., 2014, https://arxiv.org/abs/1411.0030
    (the maximum of log-probabilities with such noise is a draw).
    """
    process = process or chain()
    limits = ops.expand_dims(limits, 1)  # (B, 1)
    state = _start(keys, limits, length, cache, start_id, pad_id)
    nothing = ops.zeros((keys.shape[0],), "float32") if prefix else OFF
    state = state._replace(prefix=nothing)

    def body(state: _State, constants: Tensors) -> _State:
        limits, keys, constants = constants
        logits, cache = decode_step(state.last, state.position, constants, state.cache)
        log_probabilities = ops.log_softmax(logits, axis=-1)  # (B, R, V)
        scores = process(logits, state.tokens, state.position, constants)
        if temperature != 1.0:
            scores = scores / number("temperature", temperature, constants)
        if top_k:
            scores = keep_top_k(scores, top_k)
        if top_p < 1.0:
            scores = keep_top_p(scores, number("top_p", top_p, constants))
        noise = gumbel(keys, state.position, scores.shape[-1])
        token = ops.cast(ops.argmax(scores + noise, axis=-1), "int32")  # (B, R)
        drawn = _log_probabilities(log_probabilities, scores, token)
        if prefix:
            forced = forced_tokens(state.position, constants["prefix"])
            drawn = ops.where(ops.expand_dims(forced == FREE, 1), drawn, 0.0)
        if first:
            is_free = ops.expand_dims(constants["forced_start"] == FREE, 1)
            is_free = ops.logical_or(is_free, state.position > 0)
            drawn = ops.where(is_free, drawn, 0.0)
        if forced_end:
            drawn = ops.where(state.position + 1 >= limits, 0.0, drawn)
        token = ops.where(state.done, pad_id, token)
        drawn = ops.where(state.done, 0.0, drawn + nan_of(logits))
        is_current = ops.arange(length, dtype="int32") == state.position  # (L,)
        ended = ops.logical_and(token == end_id, ops.logical_not(state.done))
        finished = ops.logical_or(state.finished, ended)
        position = state.position + 1
        at_end = ops.logical_or(finished, position >= limits)
        return _State(
            position=position,
            tokens=ops.where(is_current, ops.expand_dims(token, 2), state.tokens),
            last=token,
            log_probabilities=state.log_probabilities + drawn,
            lengths=ops.where(state.done, state.lengths, position),
            finished=finished,
            done=ops.logical_or(state.done, at_end),
            cache=cache,
            prefix=with_forced(state, logits, constants),
        )

    state = search_loop(
        body, state, (limits, keys, constants), rows=keys.shape[0], length=length
    )
    alpha = number("length_penalty", length_penalty, constants)
    return result_of(state, pad_id, normalization, alpha)


def _start(
    keys: Tensor,
    limits: Tensor,
    length: int | Tensor,
    cache: Tensors,
    start_id: int,
    pad_id: int,
) -> _State:
    rows, width, _ = ops.shape(keys)
    nothing = ops.zeros((rows, width), "int32")
    return _State(
        position=ops.zeros((), "int32"),
        tokens=ops.full((rows, width, length), pad_id, "int32"),
        last=nothing + start_id,
        log_probabilities=ops.zeros((rows, width), "float32"),
        lengths=nothing,
        finished=ops.zeros((rows, width), "bool"),
        done=limits + nothing <= 0,
        cache=cache,
    )


def _log_probabilities(
    log_probabilities: Tensor, scores: Tensor, tokens: Tensor
) -> Tensor:
    """The values (B, R, V) of chosen tokens: (B, R); `NEVER` if all are forbidden."""
    places = ops.expand_dims(tokens, 2)
    drawn = ops.take_along_axis(log_probabilities, places, axis=2)[:, :, 0]
    return ops.where(ops.max(scores, axis=-1) != NEVER, drawn, NEVER)


def sample_keys(seed: int, numbers: Sequence[int], count: int) -> np.ndarray:
    """Keys (R, 2) int32 of the samples of one line.

    Args:
        seed: the seed, at least 0.
        numbers: the number of the line, and of its part where it is split.
        count: R; fewer samples have the first of these keys.
    """
    sequence = np.random.SeedSequence(seed, spawn_key=numbers)
    return sequence.generate_state(2 * count).view("int32").reshape(count, 2)


def gumbel(keys: Tensor, position: Tensor, count: int) -> Tensor:
    """Gumbel noise (B, R, V) of keys (B, R, 2), for one position and V tokens."""
    row = _mixed(keys[..., 0] + position * _STEP)  # (B, R)
    tokens = ops.arange(count, dtype="int32") * _STEP  # (V,)
    bits = _mixed(tokens + ops.expand_dims(row, 2))
    bits = _mixed(bits + keys[..., 1:])
    bits = ops.bitwise_and(ops.right_shift(bits, 9), 0x7FFFFF)
    # The middle of one of 2^23 equal parts of the interval from 0 to 1.
    uniform = (ops.cast(bits, "float32") + 0.5) / 2.0**23
    return -ops.log(-ops.log(uniform))


def _mixed(bits: Tensor) -> Tensor:
    """A permutation of the 32-bit integers whose output bits depend on all input bits.

    Reference: Wellons, 2018, https://nullprogram.com/blog/2018/07/31/.
    """
    bits = ops.bitwise_xor(bits, _shifted(bits, 16)) * _FIRST
    bits = ops.bitwise_xor(bits, _shifted(bits, 15)) * _SECOND
    return ops.bitwise_xor(bits, _shifted(bits, 16))


def _shifted(bits: Tensor, count: int) -> Tensor:
    """A logical right shift: signed integers would be filled with their sign."""
    return ops.bitwise_and(ops.right_shift(bits, count), (1 << (32 - count)) - 1)
