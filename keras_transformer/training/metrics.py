"""Metrics per target token, exact over any split into batches.

They sum numerators and tokens, padding excluded, and work with `model.compile` of any
model that gives logits. Under a model of this package they are fed by the loss head,
which never holds the logits.

B batch, T target positions, V vocabulary.
"""

import keras
from keras import ops

from keras_transformer.fused_cross_entropy import token_mask
from keras_transformer.losses import TokenStatistics
from keras_transformer.losses import token_losses


class TokenMetric(keras.metrics.Metric):
    """Sums `TokenStatistics`; a subclass says what they amount to.

    Args:
        pad_id: the label that does not count.
        name: in the logs.
        dtype: of the sums.

    Call arguments of `update_state`:
        y_true: labels (B, T) int.
        y_pred: logits (B, T, V).
        sample_weight: not used: every token that is not padding counts once.
    """

    def __init__(self, pad_id=0, name=None, dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.pad_id = pad_id
        self.log_likelihood = self._sum("log_likelihood")
        self.num_right = self._sum("num_right")
        self.num_tokens = self._sum("num_tokens")

    def update_state(self, y_true, y_pred, sample_weight=None):
        _, log_likelihoods, right = token_losses(y_pred, y_true)
        mask = token_mask(y_true, self.pad_id)
        self.update_statistics(
            TokenStatistics(
                ops.sum(log_likelihoods * mask), ops.sum(right * mask), ops.sum(mask)
            )
        )

    def update_statistics(self, statistics):
        """Adds the `TokenStatistics` of a batch."""
        self.log_likelihood.assign_add(statistics.log_likelihood)
        self.num_right.assign_add(statistics.num_right)
        self.num_tokens.assign_add(statistics.num_tokens)

    def get_config(self):
        return {"pad_id": self.pad_id, "name": self.name, "dtype": self.dtype}

    def _sum(self, name):
        return self.add_weight(name=name, shape=(), initializer="zeros")

    def _mean(self, total):
        return total / ops.maximum(self.num_tokens, 1.0)


@keras.saving.register_keras_serializable(package="keras_transformer")
class NegativeLogLikelihood(TokenMetric):
    """Minus the mean natural log-likelihood of a token, without label smoothing."""

    def __init__(self, pad_id=0, name="nll", dtype=None):
        super().__init__(pad_id, name, dtype)

    def result(self):
        return -self._mean(self.log_likelihood)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMetric):
    """exp of the negative log-likelihood of a token, without label smoothing."""

    def __init__(self, pad_id=0, name="perplexity", dtype=None):
        super().__init__(pad_id, name, dtype)

    def result(self):
        return ops.exp(-self._mean(self.log_likelihood))


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMetric):
    """The share of tokens to which the model gives its highest score."""

    def __init__(self, pad_id=0, name="token_accuracy", dtype=None):
        super().__init__(pad_id, name, dtype)

    def result(self):
        return self._mean(self.num_right)
