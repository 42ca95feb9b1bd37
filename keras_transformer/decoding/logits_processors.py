"""Logits processors: pure functions that change the scores of the next token.

The repetition penalty changes logits, before the softmax. The others work on
log-probabilities: forbidden tokens get minus infinity, and the rest is not
renormalized.

B batch, W hypotheses a row, L most tokens, P tokens of a prefix, V vocabulary.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer.decoding.numbers import number
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: The log-probability of a forbidden token, and of an empty place.
NEVER = -float("inf")
#: The padding of prefixes in a batch: the search is free at this position.
FREE = -1


def chain(
    *,
    suppressed: Sequence[int] = (),
    min_length: int = 0,
    no_repeat_ngram_size: int = 0,
    repetition_penalty: float = 1.0,
    prefix: bool = False,
    first: bool = False,
    forced_end: bool = False,
    end_id: int = 2,
) -> Callable[..., Tensor]:
    """The functions below in sequence; those that are off add no operation.

    What is forced comes last and overrides the other rules, at no cost: the end at the
    limit, a prefix, and before all a first token.

    Args:
        suppressed: see `suppress`.
        min_length: the end token is forbidden before it; 0 and 1 are off.
        no_repeat_ngram_size: see `block_repeated_ngrams`; 0 is off.
        repetition_penalty: see `penalize_repetition`.
        prefix: whether `constants["prefix"]` holds one, see `force_prefix`.
        first: whether `constants["forced_start"]` holds first tokens, see
            `force_start`.
        forced_end: whether `constants["limits"]` holds limits, see `force_end`.
        end_id: the id that ends a hypothesis.

    Returns:
        A function of logits (B, W, V), the tokens so far (B, W, L), their number, and
        `constants`; it returns log-probabilities (B, W, V). Scalars in
        `constants["numbers"]` replace `min_length` and `repetition_penalty`; the
        arguments then only say that they are used.
    """

    def process(
        logits: Tensor, tokens: Tensor, position: Tensor, constants: Tensors
    ) -> Tensor:
        if repetition_penalty != 1.0:
            penalty = number("repetition_penalty", repetition_penalty, constants)
            logits = penalize_repetition(logits, tokens, position, penalty)
        scores = ops.log_softmax(logits, axis=-1)
        size = scores.shape[-1]
        forbidden = [_is_one_of(suppressed, size)] if suppressed else []
        if min_length > 1:
            least = number("min_length", min_length, constants)
            forbidden.append(_is_early_end(position, least, end_id, size))
        if forbidden:
            scores = forbid(scores, functools.reduce(ops.logical_or, forbidden))
        if no_repeat_ngram_size:
            scores = block_repeated_ngrams(
                scores, tokens, position, no_repeat_ngram_size
            )
        if forced_end:
            scores = force_end(scores, position, constants["limits"], end_id)
        if prefix:
            scores = force_prefix(scores, position, constants["prefix"])
        if first:
            scores = force_start(scores, position, constants["forced_start"])
        return scores

    return process


def suppress(log_probabilities: Tensor, suppressed: Sequence[int]) -> Tensor:
    """(..., V) with minus infinity at the ids `suppressed`."""
    if not suppressed:
        return log_probabilities
    size = log_probabilities.shape[-1]
    return forbid(log_probabilities, _is_one_of(suppressed, size))


def forbid(log_probabilities: Tensor, forbidden: Tensor) -> Tensor:
    """(..., V) with minus infinity where `forbidden`, (V,) bool, is True."""
    # A sum: where nothing fuses operations, a choice of each entry takes much longer.
    bias = ops.where(forbidden, NEVER, 0.0)  # (V,)
    return log_probabilities + ops.cast(bias, log_probabilities.dtype)


def _is_one_of(ids: Sequence[int], vocabulary_size: int) -> Tensor:
    """Which entries of the vocabulary, (V,) bool, are among `ids`."""
    if len(ids) > 8:
        mask = np.zeros(vocabulary_size, bool)
        mask[list(ids)] = True
        return ops.convert_to_tensor(mask)
    every_id = ops.arange(vocabulary_size, dtype="int32")
    return functools.reduce(ops.logical_or, [every_id == token for token in ids])


def _is_early_end(
    position: Tensor, min_length: int, end_id: int, vocabulary_size: int
) -> Tensor:
    """The end token, (V,) bool, before position `min_length`; nothing from there on."""
    ids = ops.arange(vocabulary_size, dtype="int32")
    return ops.logical_and(ids == end_id, position + 1 < min_length)


def penalize_repetition(
    logits: Tensor, tokens: Tensor, position: Tensor, penalty: float | Tensor
) -> Tensor:
    """Logits (B, W, V), lowered for tokens that have occurred.

    Positive logits are divided by `penalty`, negative ones multiplied by it: a penalty
    above 1 makes the token less probable in both cases.

    Reference: Keskar et al., 2019, https://arxiv.org/abs/1909.05858, section 4.1, which
    divides; with the product for negative ones, as its authors' code came to be used.
    """
    shape = ops.shape(tokens)
    written = ops.arange(shape[-1], dtype="int32") < position  # (L,)
    has_occurred = _marked(tokens, ops.broadcast_to(written, shape), logits)
    lower = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(has_occurred, lower, logits)


def block_repeated_ngrams(
    log_probabilities: Tensor, tokens: Tensor, position: Tensor, size: int
) -> Tensor:
    """Forbids tokens that would repeat an n-gram of `size` tokens."""
    rows, width, length = ops.shape(tokens)
    if isinstance(length, int) and length < size:
        return log_probabilities
    count = length - size + 1  # positions where an n-gram may begin
    if not isinstance(length, int):
        count = ops.maximum(count, 0)
    whole = ops.arange(count, dtype="int32") + size <= position
    repeated = ops.broadcast_to(whole, (rows, width, count))
    for offset in range(size - 1):
        place = ops.maximum(position - size + 1 + offset, 0)
        last = ops.expand_dims(ops.take(tokens, place, axis=2), 2)  # (B, W, 1)
        same = tokens[:, :, offset : offset + count] == last
        repeated = ops.logical_and(repeated, same)
    ends = tokens[:, :, size - 1 :]  # (B, W, count)
    blocked = _marked(ends, repeated, log_probabilities)
    return ops.where(blocked, NEVER, log_probabilities)


def forced_tokens(position: Tensor, prefix: Tensor) -> Tensor:
    """The token of a prefix (B, P) at `position`: (B,) int32, `FREE` beyond its end."""
    length = prefix.shape[1]
    tokens = ops.take(prefix, ops.minimum(position, length - 1), axis=1)
    return ops.where(position < length, tokens, FREE)


def force_prefix(scores: Tensor, position: Tensor, prefix: Tensor) -> Tensor:
    """Forces the next token of a prefix, at no cost.

    A forced token was not chosen, so an improbable one must not change the score of the
    tokens that follow it.

    Args:
        scores: (B, W, V), returned unchanged where the search is free.
        position: number of tokens so far.
        prefix: (B, P) int32, filled with `FREE`.
    """
    tokens = ops.expand_dims(forced_tokens(position, prefix), (1, 2))
    ids = ops.arange(scores.shape[-1], dtype="int32")
    forced = ops.where(ids == tokens, 0.0, NEVER)
    return ops.where(tokens == FREE, scores, forced)


def force_start(scores: Tensor, position: Tensor, tokens: Tensor) -> Tensor:
    """Forces the first token, at no cost.

    Args:
        scores: (B, W, V), returned unchanged after the first position.
        position: number of tokens so far.
        tokens: (B,) int32, `FREE` where the search is free.
    """
    return force_prefix(scores, position, ops.expand_dims(tokens, 1))


def force_end(scores: Tensor, position: Tensor, limits: Tensor, end_id: int) -> Tensor:
    """Forces the end where the next token is the last that the limit allows.

    Args:
        scores: (B, W, V), returned unchanged below the limit.
        position: number of tokens so far.
        limits: (B,) int32, the most tokens of each row, end token included.
        end_id: the id that ends a hypothesis.
    """
    at_limit = ops.expand_dims(position + 1 >= limits, (1, 2))
    ids = ops.arange(scores.shape[-1], dtype="int32")
    return ops.where(at_limit, ops.where(ids == end_id, 0.0, NEVER), scores)


def forced_log_probabilities(
    log_probabilities: Tensor, position: Tensor, prefix: Tensor
) -> Tensor:
    """The model's log-probability of the forced token: (B,), 0 where none is forced.

    Args:
        log_probabilities: (B, V), of the model.
        position: number of tokens so far.
        prefix: (B, P) int32, filled with `FREE`.
    """
    tokens = forced_tokens(position, prefix)
    places = ops.expand_dims(ops.maximum(tokens, 0), 1)
    log_probability = ops.take_along_axis(log_probabilities, places, axis=1)[:, 0]
    return ops.where(tokens == FREE, 0.0, log_probability)


def keep_top_k(scores: Tensor, count: int) -> Tensor:
    """Keeps the `count` highest scores and ties of the last; minus infinity elsewhere.

    Reference: Fan et al., 2018, https://arxiv.org/abs/1805.04833, section 5.4.
    """
    if count >= scores.shape[-1]:
        return scores
    least = backends.top_k(scores, count)[0][..., -1:]
    return ops.where(scores >= least, scores, NEVER)


def keep_top_p(scores: Tensor, mass: float | Tensor) -> Tensor:
    """Keeps the fewest highest scores whose probabilities reach `mass`.

    Ties of the last are kept too.

    Reference: Holtzman et al., 2020, https://arxiv.org/abs/1904.09751, section 3.1.
    """
    ordered, _ = backends.top_k(scores, scores.shape[-1])
    probabilities = ops.exp(ops.log_softmax(ordered, axis=-1))
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    least = ops.min(ops.where(before < mass, ordered, float("inf")), -1, keepdims=True)
    return ops.where(scores >= least, scores, NEVER)


def _marked(tokens: Tensor, marks: Tensor, log_probabilities: Tensor) -> Tensor:
    """Which ids (B, W, V) are among the marked `tokens` (B, W, M)."""
    rows, width, size = ops.shape(log_probabilities)
    lines = ops.reshape(ops.arange(rows * width, dtype="int32"), (-1, 1))
    tokens = ops.reshape(tokens, (rows * width, -1))
    # Two indices per place: a single index would exceed int32 where B * W * V does.
    places = ops.stack([ops.broadcast_to(lines, ops.shape(tokens)), tokens], axis=2)
    counts = ops.scatter_update(
        ops.zeros((rows * width, size), "int32"),
        ops.reshape(places, (-1, 2)),
        ops.reshape(ops.cast(marks, "int32"), (-1,)),
        reduction="add",
    )
    return ops.reshape(counts, (rows, width, size)) > 0
