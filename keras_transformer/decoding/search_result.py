"""What every search gives back.

B batch, R hypotheses a row, L most tokens.
"""

from typing import Any
from typing import NamedTuple


class SearchResult(NamedTuple):
    """The hypotheses of each row, best first.

    A place that holds no hypothesis has length 0, no tokens but pad_id, and minus
    infinity for log-probability and score.
    """

    tokens: Any  # (B, R, L) int32, without the start token; pad_id after the end
    lengths: Any  # (B, R) int32, tokens with the end token
    log_probabilities: Any  # (B, R) float32, the sum over the tokens
    scores: Any  # (B, R) float32, divided by the length penalty
    finished: Any  # (B, R) bool, False where the length limit cut it
