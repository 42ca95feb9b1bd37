"""Metrics per target token, exact over any split into batches, and of the gradient.

Those of tokens sum numerators and tokens, padding excluded, and work with
`model.compile` of any model that gives logits. A model of this package feeds all of
them itself: its loss never holds the logits, and Keras gives no metric a gradient.

B batch, T target positions, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from keras_transformer.losses import TokenStatistics
from keras_transformer.losses import token_losses
from keras_transformer.losses.labels import PaddingOfModel
from keras_transformer.losses.labels import token_mask
from keras_transformer.tensors import DType
from keras_transformer.tensors import Tensor


class TokenMetric(PaddingOfModel, keras.metrics.Metric):
    """Sums `TokenStatistics`; a subclass says what they amount to.

    Args:
        pad_id: the label that does not count. Default: that of the loss of this package
            that is compiled with it, else of the model; 0 with any other.
        name: in the logs.
        dtype: of the sums.

    Call arguments of `update_state`:
        y_true: labels (B, T) int.
        y_pred: logits (B, T, V).
        sample_weight: not used: every token that is not padding counts once.
    """

    def __init__(
        self,
        pad_id: int | None = None,
        name: str | None = None,
        dtype: DType | None = None,
    ) -> None:
        super().__init__(name=name, dtype=dtype)
        self.set_pad_id(pad_id)
        self.log_likelihood = self._sum("log_likelihood")
        self.num_right = self._sum("num_right")
        self.num_tokens = self._sum("num_tokens")

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        _, log_likelihoods, right = token_losses(y_pred, y_true, pad_id=self.pad_id)
        mask = token_mask(y_true, self.pad_id)
        self.update_statistics(
            TokenStatistics(
                ops.sum(log_likelihoods * mask), ops.sum(right * mask), ops.sum(mask)
            )
        )

    def update_statistics(self, statistics: TokenStatistics) -> None:
        """Adds the `TokenStatistics` of a batch."""
        self.log_likelihood.assign_add(statistics.log_likelihood)
        self.num_right.assign_add(statistics.num_right)
        self.num_tokens.assign_add(statistics.num_tokens)

    def get_config(self) -> dict[str, Any]:
        return {"pad_id": self.known_pad_id, "name": self.name, "dtype": self.dtype}

    def _sum(self, name: str) -> Tensor:
        return self.add_weight(name=name, shape=(), initializer="zeros")

    def _mean(self, total: Tensor) -> Tensor:
        return total / ops.maximum(self.num_tokens, 1.0)


@keras.saving.register_keras_serializable(package="keras_transformer")
class NegativeLogLikelihood(TokenMetric):
    """Minus the mean natural log-likelihood of a token, without label smoothing."""

    def __init__(
        self, pad_id: int | None = None, name: str = "nll", dtype: DType | None = None
    ) -> None:
        super().__init__(pad_id, name, dtype)

    def result(self) -> Tensor:
        return -self._mean(self.log_likelihood)


@keras.saving.register_keras_serializable(package="keras_transformer")
class Perplexity(TokenMetric):
    """exp of the negative log-likelihood of a token, without label smoothing."""

    def __init__(
        self,
        pad_id: int | None = None,
        name: str = "perplexity",
        dtype: DType | None = None,
    ) -> None:
        super().__init__(pad_id, name, dtype)

    def result(self) -> Tensor:
        return ops.exp(-self._mean(self.log_likelihood))


@keras.saving.register_keras_serializable(package="keras_transformer")
class TokenAccuracy(TokenMetric):
    """The share of tokens to which the model gives its highest score."""

    def __init__(
        self,
        pad_id: int | None = None,
        name: str = "token_accuracy",
        dtype: DType | None = None,
    ) -> None:
        super().__init__(pad_id, name, dtype)

    def result(self) -> Tensor:
        return self._mean(self.num_right)


@keras.saving.register_keras_serializable(package="keras_transformer")
class GradientNorm(keras.metrics.Metric):
    """The Euclidean norm of the whole gradient before clipping, mean over steps.

    "Whole" is of all weights, of embeddings (V, D) as of biases (D,), and of the global
    batch: summed over replicas, processes and micro-batches.
    The models of this package feed it in `fit`; it appears in no logs of `evaluate`.
    Steps whose gradient is not finite, as the first ones of a float16 training may be,
    are left out; 0 where no step is left.

    Args:
        name: in the logs.
        dtype: of the sums.

    Example:

    >>> import keras_transformer as kt
    >>> config = kt.TransformerConfig.from_preset("tiny", vocabulary_size=100)
    >>> model = kt.Transformer(config)
    >>> loss = kt.training.LabelSmoothedCrossEntropy()
    >>> model.compile("adam", loss, metrics=[kt.training.GradientNorm()])

    Reference: Pascanu et al., 2013, https://arxiv.org/abs/1211.5063.
    """

    def __init__(self, name: str = "gradient_norm", dtype: DType | None = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(name="total", shape=(), initializer="zeros")
        self.count = self.add_weight(name="count", shape=(), initializer="zeros")

    def update_state(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> None:
        """Nothing: a norm cannot be told from predictions."""

    def update_norm(self, norm: Tensor) -> None:
        """Adds the norm of a step, a float32 scalar."""
        finite = ops.isfinite(norm)
        self.total.assign_add(ops.where(finite, norm, 0.0))
        self.count.assign_add(ops.cast(finite, self.count.dtype))

    def result(self) -> Tensor:
        return ops.divide_no_nan(self.total, self.count)


def global_norm(gradients: Iterable[Tensor]) -> Tensor:
    """Sqrt of the sum of all squares, None left out: a float32 scalar."""
    squares = [
        ops.sum(ops.square(ops.cast(gradient, "float32")))
        for gradient in gradients
        if gradient is not None
    ]
    return ops.sqrt(sum(squares))
