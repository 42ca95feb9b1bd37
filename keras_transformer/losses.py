"""Label-smoothed cross-entropy: on logits, and fused with the output matrix.

Both forms give the same numbers. The fused one never holds a logit of every token:
it goes through the tokens in chunks and computes the gradients of hidden states and
output matrix in the same pass.

B batch, T target positions, N = B * T, D hidden_dim, V vocabulary, C chunks.
"""

import math
from typing import Any
from typing import NamedTuple

import keras
from keras import ops

from keras_transformer import backends

# Tokens in a chunk where the number of tokens is known, and chunks where it is not.
CHUNK_TOKENS = 512
NUM_CHUNKS = 8


class TokenStatistics(NamedTuple):
    """Sums over the target tokens of a batch: float32 scalars.

    `log_likelihood` is natural and not smoothed; a token counts as right where no
    entry of the vocabulary scores higher.
    """

    log_likelihood: Any
    num_right: Any
    num_tokens: Any


def token_losses(logits, labels, label_smoothing=0.0):
    """Loss, log-likelihood and rightness of each token, in float32.

    loss = log Σ exp z - (1 - ε) z_y - ε mean(z): the cross-entropy against
    (1 - ε) one-hot + ε uniform over the whole vocabulary, in closed form.

    Args:
        logits: (..., V).
        labels: (...) int.
        label_smoothing: ε.

    Returns:
        Three tensors (...) in float32.

    Reference: Szegedy et al., 2016, https://arxiv.org/abs/1512.00567, section 7;
    Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.4.
    """
    logits = ops.cast(logits, "float32")
    score = _label_scores(logits, ops.cast(labels, "int32"))
    highest, normalizer = ops.max(logits, axis=-1), ops.logsumexp(logits, axis=-1)
    mean = ops.mean(logits, axis=-1) if label_smoothing else 0.0
    return _token_terms(score, highest, normalizer, mean, label_smoothing)


def _label_scores(logits, labels):
    scores = ops.take_along_axis(logits, ops.expand_dims(labels, -1), axis=-1)
    return ops.squeeze(scores, -1)


def _token_terms(score, highest, normalizer, mean, label_smoothing):
    """What `token_losses` returns, from what it needs of each token's logits."""
    loss = normalizer - (1.0 - label_smoothing) * score - label_smoothing * mean
    return loss, score - normalizer, ops.cast(score >= highest, "float32")


def default_weights(labels, pad_id):
    """1 / tokens at each token, 0 at padding: (B, T) float32.

    Tokens are counted over all replicas, so that the sum over them is the mean.
    """
    mask = ops.cast(ops.not_equal(labels, pad_id), "float32")
    return mask / ops.maximum(backends.sum_over_replicas(ops.sum(mask)), 1.0)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(keras.losses.Loss):
    """The sum of weight * cross-entropy against smoothed labels, per target token.

    With the weights of `TokenBatches` (1 / tokens in the whole global batch) the sum
    is the mean per token, exactly, under any split of the batch over devices and
    accumulation steps. Without weights it is the mean over the tokens that are not
    padding.

    A model of this package computes it fused with its output matrix when it trains
    and evaluates, unless a compiled metric needs the logits.

    Args:
        label_smoothing: ε, in [0, 1); the paper's is 0.1.
        pad_id: the label that does not count.

    Call arguments:
        y_true: labels (B, T) int.
        y_pred: logits (B, T, V).
        sample_weight: (B, T) float32.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.losses import LabelSmoothedCrossEntropy
    >>> loss = LabelSmoothedCrossEntropy(0.1)
    >>> round(float(loss(ops.array([[3, 1, 0]]), ops.zeros((1, 3, 7)))), 4)  # ln 7
    1.9459

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.4.
    """

    def __init__(
        self, label_smoothing=0.1, pad_id=0, name="label_smoothed_cross_entropy"
    ):
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"label_smoothing must be in [0, 1), got {label_smoothing}"
            )
        super().__init__(name=name, reduction="sum")
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def __call__(self, y_true, y_pred, sample_weight=None):
        if sample_weight is None:
            sample_weight = default_weights(y_true, self.pad_id)
        return super().__call__(y_true, y_pred, sample_weight)

    def call(self, y_true, y_pred):
        return token_losses(y_pred, y_true, self.label_smoothing)[0]

    def fused(self, hidden, matrix, bias, labels, sample_weight=None, training=True):
        """The same loss from hidden states and output matrix.

        Args:
            hidden: (B, T, D) in the compute dtype.
            matrix: (V, D).
            bias: (V,) or None.
            labels: (B, T) int.
            sample_weight: (B, T) float32 or None.
            training: whether gradients are wanted.

        Returns:
            The loss, a float32 scalar, and `TokenStatistics`.
        """
        labels = ops.cast(labels, "int32")
        if sample_weight is None:
            sample_weight = default_weights(labels, self.pad_id)
        matrix = ops.cast(ops.convert_to_tensor(matrix), hidden.dtype)
        tensors = [hidden, matrix]
        if bias is not None:
            tensors.append(ops.cast(ops.convert_to_tensor(bias), "float32"))
        head = _Head(labels, sample_weight, self.label_smoothing, self.pad_id)
        if training:
            sums = ops.custom_gradient(head.with_gradients)(*tensors)
        else:
            sums = head.sums(*tensors)
        return sums[0], TokenStatistics(
            *(ops.stop_gradient(sums[i]) for i in (1, 2, 3))
        )

    def get_config(self):
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "pad_id": self.pad_id,
        }


class _Head:
    """Linear layer, softmax and loss of one batch, chunk by chunk.

    Each method takes hidden states (B, T, D), the matrix (V, D) and the bias (V,) or
    nothing. The sums are [loss, log-likelihood, right tokens, tokens].
    """

    def __init__(self, labels, weights, label_smoothing, pad_id):
        self.labels = labels
        self.weights = ops.cast(weights, "float32")
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def sums(self, hidden, matrix, bias=None):
        means = _means(matrix, bias)

        def step(sums, chunk):
            return sums + self._forward(chunk, matrix, bias, means)[0], ()

        chunks, _ = self._chunks(hidden)
        return backends.scan(step, ops.zeros((4,), "float32"), chunks)[0]

    def with_gradients(self, hidden, matrix, bias=None):
        """The sums, and the function that gives the gradients, as Keras wants it.

        d loss / d logits = weight * (softmax - (1 - ε) one-hot - ε / V). Of these only
        the softmax is multiplied as a matrix over the vocabulary, and its rows are
        scaled where they have D entries, not V.
        """
        vocabulary_size = matrix.shape[0]
        means = _means(matrix, bias)
        chunks, num_tokens = self._chunks(hidden)

        def step(carry, chunk):
            sums, matrix_gradient, bias_gradient = carry
            states, _, weights = chunk
            added, powers, total = self._forward(chunk, matrix, bias, means)
            sums = sums + added
            scale = ops.expand_dims(weights / total, -1)  # (N / C, 1)
            if bias is not None:
                bias_gradient = bias_gradient + ops.sum(powers * scale, axis=0)
            powers = ops.cast(powers, matrix.dtype)  # (N / C, V)
            scale = ops.cast(scale, matrix.dtype)
            matrix_gradient = matrix_gradient + ops.cast(
                ops.matmul(ops.transpose(powers), scale * states), "float32"
            )
            states_gradient = scale * ops.matmul(powers, matrix)
            return (sums, matrix_gradient, bias_gradient), states_gradient

        carry = (
            ops.zeros((4,), "float32"),
            ops.zeros(matrix.shape, "float32"),
            ops.zeros((vocabulary_size,) if bias is not None else (), "float32"),
        )
        (sums, matrix_gradient, bias_gradient), states_gradient = backends.scan(
            step, carry, chunks
        )
        states, labels, weights = (ops.reshape(c, (-1, *c.shape[2:])) for c in chunks)
        weights = ops.expand_dims(weights, -1)  # (N, 1)
        target = self._target(matrix, means[0], labels)
        hidden_gradient = ops.reshape(states_gradient, ops.shape(states))
        hidden_gradient = hidden_gradient - ops.cast(weights, matrix.dtype) * target
        hidden_gradient = ops.reshape(hidden_gradient[:num_tokens], ops.shape(hidden))
        rows = weights * ops.cast(states, "float32")
        matrix_gradient = matrix_gradient - self._target_sums(matrix, rows, labels)
        gradients = [hidden_gradient, ops.cast(matrix_gradient, matrix.dtype)]
        if bias is not None:
            sums_of_bias = self._target_sums(matrix, weights[:, 0], labels)
            gradients.append(bias_gradient - sums_of_bias)

        def gradient(*arguments, upstream=None):
            if upstream is None:
                (upstream,) = arguments
            scale = upstream[0]  # only the loss has a gradient
            return tuple(ops.cast(scale, g.dtype) * g for g in gradients)

        return sums, gradient

    def _target(self, matrix, mean_row, labels):
        """The smoothed labels times the matrix: (N, D)."""
        smoothing = self.label_smoothing
        own = (1.0 - smoothing) * ops.take(matrix, labels, axis=0)
        return own + smoothing * ops.cast(mean_row, matrix.dtype)

    def _target_sums(self, matrix, rows, labels):
        """The transposed smoothed labels times rows (N, ...): (V, ...)."""
        smoothing, vocabulary_size = self.label_smoothing, matrix.shape[0]
        own = (1.0 - smoothing) * ops.segment_sum(rows, labels, vocabulary_size)
        return own + smoothing / vocabulary_size * ops.sum(rows, axis=0)

    def _forward(self, chunk, matrix, bias, means):
        """The sums of a chunk, exp(logits - maximum) (N / C, V), and their sums."""
        states, labels, weights = chunk
        logits = ops.cast(ops.matmul(states, ops.transpose(matrix)), "float32")
        logits = logits if bias is None else logits + bias
        highest = ops.max(logits, axis=-1, keepdims=True)
        powers = ops.exp(logits - highest)
        total = ops.sum(powers, axis=-1)
        highest = ops.squeeze(highest, -1)
        # The mean over the vocabulary, without reading the logits again.
        mean_row, mean_bias = means
        mean = ops.sum(ops.cast(states, "float32") * mean_row, axis=-1) + mean_bias
        losses, likelihoods, right = _token_terms(
            _label_scores(logits, labels),
            highest,
            highest + ops.log(total),
            mean,
            self.label_smoothing,
        )
        mask = ops.cast(ops.not_equal(labels, self.pad_id), "float32")
        terms = (weights * losses, mask * likelihoods, mask * right, mask)
        return ops.stack([ops.sum(term) for term in terms]), powers, total

    def _chunks(self, hidden):
        """((C, N/C, D), (C, N/C), (C, N/C)) with padding of weight 0, and N."""
        static = None not in hidden.shape[:2]
        num_tokens = math.prod(hidden.shape[:2]) if static else ops.size(self.labels)
        num_chunks = math.ceil(num_tokens / CHUNK_TOKENS) if static else NUM_CHUNKS
        padding = -num_tokens % num_chunks
        chunks = []
        for tensor, filler in (
            (ops.reshape(hidden, (-1, hidden.shape[-1])), 0),
            (ops.reshape(self.labels, (-1,)), self.pad_id),
            (ops.reshape(self.weights, (-1,)), 0),
        ):
            if not static or padding:
                widths = [[0, padding]] + [[0, 0]] * (len(tensor.shape) - 1)
                tensor = ops.pad(tensor, widths, constant_values=filler)
            shape = (num_chunks, -1, *tensor.shape[1:])
            chunks.append(ops.reshape(tensor, shape))
        return tuple(chunks), num_tokens


def _means(matrix, bias):
    """The mean row (D,) and bias () over the vocabulary, in float32."""
    mean_row = ops.mean(ops.cast(matrix, "float32"), axis=0)
    return mean_row, 0.0 if bias is None else ops.mean(bias)
