"""What every search gives back.

B batch, R hypotheses a row, L most tokens.
"""

from typing import Any
from typing import NamedTuple

from keras import ops

from keras_transformer.decoding.length_penalty import normalized
from keras_transformer.decoding.logits_processors import NEVER


class SearchResult(NamedTuple):
    """The hypotheses of each row, best first; samples in the order of their keys.

    A place that holds no hypothesis has length 0, no tokens but pad_id, and minus
    infinity for log-probability and score.
    """

    tokens: Any  # (B, R, L) int32, without the start token; pad_id after the end
    lengths: Any  # (B, R) int32, tokens with the end token
    log_probabilities: Any  # (B, R) float32, the sum over the tokens
    scores: Any  # (B, R) float32, see `normalized`; less a coverage penalty
    finished: Any  # (B, R) bool, False where the length limit cut it


def result_of(state, pad_id, normalization, alpha):
    """The `SearchResult` of a state that keeps one hypothesis in each place.

    Args:
        state: `tokens` (..., L), and `lengths`, `log_probabilities` and `finished`
            (...) of a search that has ended.
        pad_id: fills the place of a hypothesis that is none.
        normalization: see `normalized`.
        alpha: see `normalized`.
    """
    # Minus infinity: every token was forbidden somewhere.
    there = ops.logical_and(state.lengths > 0, state.log_probabilities > NEVER)
    log_probabilities = ops.where(there, state.log_probabilities, NEVER)
    return SearchResult(
        tokens=ops.where(ops.expand_dims(there, -1), state.tokens, pad_id),
        lengths=ops.where(there, state.lengths, 0),
        log_probabilities=log_probabilities,
        scores=normalized(log_probabilities, state.lengths, normalization, alpha),
        finished=ops.logical_and(there, state.finished),
    )
