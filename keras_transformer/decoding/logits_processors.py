"""Changes to the score of the next token: pure functions, and their chain.

A penalty changes logits, before the softmax; all else works on log-probabilities: what
is forbidden gets minus infinity, and the rest keeps its share of probability.

B batch, W hypotheses a row, L most tokens, P tokens of a prefix, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer.decoding.numbers import number
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

#: The log-probability of what is forbidden, and of a hypothesis that is none.
NEVER = -float("inf")
#: Fills the prefixes of a batch: here the search is free.
FREE = -1


def chain(
    *,
    suppressed: Sequence[int] = (),
    min_length: int = 0,
    no_repeat_ngram_size: int = 0,
    repetition_penalty: float = 1.0,
    prefix: bool = False,
    end_id: int = 2,
) -> Callable[..., Tensor]:
    """The functions below one after the other; what is off adds no operation.

    A prefix comes last and knows no other rule: its tokens are given, and cost nothing.

    Args:
        suppressed: see `suppress`.
        min_length: see `enforce_min_length`.
        no_repeat_ngram_size: see `block_repeated_ngrams`; 0 is off.
        repetition_penalty: see `penalize_repetition`.
        prefix: whether `constants["prefix"]` holds one, see `force_prefix`.
        end_id: ends a hypothesis.

    Returns:
        A function of logits (B, W, V), the tokens so far (B, W, L), their number, and
        `constants`; it gives log-probabilities (B, W, V). Scalars in
        `constants["numbers"]` take the place of `min_length` and `repetition_penalty`,
        which then only say that they are used.
    """

    def process(
        logits: Tensor, tokens: Tensor, position: Tensor, constants: Tensors
    ) -> Tensor:
        if repetition_penalty != 1.0:
            penalty = number("repetition_penalty", repetition_penalty, constants)
            logits = penalize_repetition(logits, tokens, position, penalty)
        scores = suppress(ops.log_softmax(logits, axis=-1), suppressed)
        if min_length > 1:
            least = number("min_length", min_length, constants)
            scores = enforce_min_length(scores, position, least, end_id)
        if no_repeat_ngram_size:
            scores = block_repeated_ngrams(
                scores, tokens, position, no_repeat_ngram_size
            )
        if prefix:
            scores = force_prefix(scores, position, constants["prefix"])
        return scores

    return process


def suppress(log_probabilities: Tensor, suppressed: Sequence[int]) -> Tensor:
    """(..., V) with minus infinity at the ids `suppressed`."""
    if not suppressed:
        return log_probabilities
    vocabulary_size = log_probabilities.shape[-1]
    if len(suppressed) > 8:
        mask = np.zeros(vocabulary_size, bool)
        mask[list(suppressed)] = True
        return ops.where(mask, NEVER, log_probabilities)
    ids = ops.arange(vocabulary_size, dtype="int32")
    for token in suppressed:
        log_probabilities = ops.where(ids == token, NEVER, log_probabilities)
    return log_probabilities


def enforce_min_length(
    log_probabilities: Tensor, position: Tensor, min_length: int, end_id: int
) -> Tensor:
    """No end before the token number `min_length`, which may be the end itself."""
    ids = ops.arange(log_probabilities.shape[-1], dtype="int32")
    early = ops.logical_and(ids == end_id, position + 1 < min_length)  # (V,)
    return ops.where(early, NEVER, log_probabilities)


def penalize_repetition(
    logits: Tensor, tokens: Tensor, position: Tensor, penalty: float | Tensor
) -> Tensor:
    """Logits (B, W, V), lower where the token is one of those so far.

    A positive one is divided by `penalty`, a negative one multiplied with it: whichever
    its sign, a penalty above 1 makes it less probable, and by more the surer it was.

    Reference: Keskar et al., 2019, https://arxiv.org/abs/1909.05858, section 4.1, which
    divides; with the product for negative ones, as its authors' code came to be used.
    """
    shape = ops.shape(tokens)
    written = ops.arange(shape[-1], dtype="int32") < position  # (L,)
    seen = _marked(tokens, ops.broadcast_to(written, shape), logits)
    lower = ops.where(logits > 0, logits / penalty, logits * penalty)
    return ops.where(seen, lower, logits)


def block_repeated_ngrams(
    log_probabilities: Tensor, tokens: Tensor, position: Tensor, size: int
) -> Tensor:
    """Forbids what would make the last `size` tokens a sequence that came before."""
    rows, width, length = ops.shape(tokens)
    if isinstance(length, int) and length < size:
        return log_probabilities
    count = length - size + 1  # places where a sequence may begin
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
    """What a prefix (B, P) has after `position` tokens: (B,) int32, `FREE` beyond."""
    length = prefix.shape[1]
    tokens = ops.take(prefix, ops.minimum(position, length - 1), axis=1)
    return ops.where(position < length, tokens, FREE)


def force_prefix(scores: Tensor, position: Tensor, prefix: Tensor) -> Tensor:
    """Allows one token alone, and at no cost, as long as a prefix lasts.

    It was not chosen: an improbable one shall not make what follows look better in a
    score that is divided by the length.

    Args:
        scores: (B, W, V), given back where the search is free.
        position: number of tokens so far.
        prefix: (B, P) int32, filled with `FREE`.
    """
    tokens = ops.expand_dims(forced_tokens(position, prefix), (1, 2))
    ids = ops.arange(scores.shape[-1], dtype="int32")
    forced = ops.where(ids == tokens, 0.0, NEVER)
    return ops.where(tokens == FREE, scores, forced)


def forced_log_probabilities(
    log_probabilities: Tensor, position: Tensor, prefix: Tensor
) -> Tensor:
    """What the model gives the token that a prefix forces: (B,), 0 where none is.

    Args:
        log_probabilities: (B, V), of the model.
        position: number of tokens so far.
        prefix: (B, P) int32, filled with `FREE`.
    """
    tokens = forced_tokens(position, prefix)
    places = ops.expand_dims(ops.maximum(tokens, 0), 1)
    found = ops.take_along_axis(log_probabilities, places, axis=1)[:, 0]
    return ops.where(tokens == FREE, 0.0, found)


def keep_top_k(scores: Tensor, count: int) -> Tensor:
    """Minus infinity but at the `count` highest; those equal to the last stay too.

    Reference: Fan et al., 2018, https://arxiv.org/abs/1805.04833, section 5.4.
    """
    if count >= scores.shape[-1]:
        return scores
    least = backends.top_k(scores, count)[0][..., -1:]
    return ops.where(scores >= least, scores, NEVER)


def keep_top_p(scores: Tensor, mass: float | Tensor) -> Tensor:
    """Minus infinity but at the fewest highest that hold the probability `mass`.

    Those equal to the last stay too.

    Reference: Holtzman et al., 2020, https://arxiv.org/abs/1904.09751, section 3.1.
    """
    ordered, _ = backends.top_k(scores, scores.shape[-1])
    probabilities = ops.exp(ops.log_softmax(ordered, axis=-1))
    before = ops.cumsum(probabilities, axis=-1) - probabilities
    least = ops.min(ops.where(before < mass, ordered, float("inf")), -1, keepdims=True)
    return ops.where(scores >= least, scores, NEVER)


def _marked(tokens: Tensor, marks: Tensor, log_probabilities: Tensor) -> Tensor:
    """Which ids (B, W, V) are among the `tokens` (B, W, M) that have marks."""
    rows, width, size = ops.shape(log_probabilities)
    lines = ops.reshape(ops.arange(rows * width, dtype="int32"), (-1, 1))
    tokens = ops.reshape(tokens, (rows * width, -1))
    # Two numbers a place: a single one would be above int32 where B * W * V is.
    places = ops.stack([ops.broadcast_to(lines, ops.shape(tokens)), tokens], axis=2)
    counts = ops.scatter_update(
        ops.zeros((rows * width, size), "int32"),
        ops.reshape(places, (-1, 2)),
        ops.reshape(ops.cast(marks, "int32"), (-1,)),
        reduction="add",
    )
    return ops.reshape(counts, (rows, width, size)) > 0
