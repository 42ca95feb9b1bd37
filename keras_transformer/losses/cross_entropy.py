"""Cross-entropy of each token on its logits, and the sums over the tokens of a batch.

B batch, T target positions, V vocabulary.
"""

from typing import NamedTuple

from keras import ops

from keras_transformer import backends
from keras_transformer.losses.labels import check_labels
from keras_transformer.losses.labels import nan_of_unknown
from keras_transformer.losses.labels import rows_of_labels
from keras_transformer.losses.labels import token_mask
from keras_transformer.tensors import Tensor


class TokenStatistics(NamedTuple):
    """Sums over the target tokens of a batch: float32 scalars.

    `log_likelihood` is the natural logarithm, without smoothing; a token counts as
    correct where no entry of the vocabulary scores higher.
    """

    log_likelihood: Tensor
    num_right: Tensor
    num_tokens: Tensor


def token_losses(
    logits: Tensor,
    labels: Tensor,
    label_smoothing: float = 0.0,
    pad_id: int | None = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Loss, log-likelihood and correctness of each token, in float32.

    loss = log Σ exp z - (1 - ε) z_y - ε mean(z): the cross-entropy against
    (1 - ε) one-hot + ε uniform over the whole vocabulary, in closed form.

    Args:
        logits: (..., V).
        labels: (...) int.
        label_smoothing: ε.
        pad_id: the label of padding, where it may be none of 0 .. V - 1, such as -100.

    Returns:
        Three tensors (...) in float32; undefined at padding.

    Raises:
        ValueError: where labels and logits differ in shape.

    Reference: Szegedy et al., 2016, https://arxiv.org/abs/1512.00567, section 7;
    Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.4.
    """
    check_labels(labels, logits.shape[:-1])
    logits = ops.cast(logits, "float32")
    labels = ops.cast(labels, "int32")
    score = label_scores(logits, rows_of_labels(labels, logits.shape[-1]))
    score = score + nan_of_unknown(labels, pad_id, logits.shape[-1])
    highest, log_normalizer = ops.max(logits, axis=-1), ops.logsumexp(logits, axis=-1)
    mean = ops.mean(logits, axis=-1) if label_smoothing else 0.0
    return token_terms(score, highest, log_normalizer, mean, label_smoothing)


def label_scores(logits: Tensor, labels: Tensor) -> Tensor:
    """(..., V), (...) -> (...): the logit of each label."""
    scores = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
    return ops.squeeze(scores, -1)


def token_terms(
    score: Tensor,
    highest: Tensor,
    log_normalizer: Tensor,
    mean: Tensor,
    label_smoothing: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """The results of `token_losses` from statistics of each token's logits."""
    loss = log_normalizer - (1.0 - label_smoothing) * score - label_smoothing * mean
    return loss, score - log_normalizer, ops.cast(score >= highest, "float32")


def default_weights(
    labels: Tensor, pad_id: int, num_tokens: Tensor | None = None
) -> Tensor:
    """1 / tokens at each token, 0 at padding: (B, T) float32.

    Args:
        labels: (B, T) int.
        pad_id: the label of padding, which does not count.
        num_tokens: the tokens of the whole batch, where the labels are a part of it; by
            default counted over all replicas, so that the sum over them is the mean.
    """
    mask = token_mask(labels, pad_id)
    if num_tokens is None:
        num_tokens = backends.sum_over_replicas(ops.sum(mask))
    return mask / ops.maximum(num_tokens, 1.0)
