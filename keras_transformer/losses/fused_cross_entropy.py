"""Fused cross-entropy: linear layer and loss in one pass over chunks of tokens.

It never holds the logits of all tokens: it computes loss and gradients of hidden states
and output matrix chunk by chunk, in the same pass.

B batch, T target positions, M = B * T tokens, D hidden_dim, V vocabulary, C chunks.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any
from typing import NamedTuple

from keras import ops

from keras_transformer import backends
from keras_transformer.losses.cross_entropy import label_scores
from keras_transformer.losses.cross_entropy import token_terms
from keras_transformer.losses.labels import nan_of_unknown
from keras_transformer.losses.labels import rows_of_labels
from keras_transformer.losses.labels import token_mask
from keras_transformer.tensors import Tensor
from keras_transformer.tensors import Tensors

NUM_CHUNKS = 8  # where the number of tokens is not known

#: The logit of an entry that is no entry: finite, so that differences are numbers.
_IMPOSSIBLE = -1e9


class Teacher(NamedTuple):
    """The distributions of a teacher, as the linear layer that they come from.

    The loss of a token is 1 - weight times its cross-entropy, plus weight times τ^2
    KL(teacher, student), where τ divides the logits of both.
    """

    hidden: Tensor  # (B, T, D) of the teacher
    matrix: Tensor  # (V, D) of the teacher
    bias: Tensor | None  # (V,)
    weight: float
    temperature: float  # τ

    def log_probabilities(self, states: Tensor) -> Tensor:
        """(M, D) -> (M, V) in float32."""
        logits = ops.cast(ops.matmul(states, ops.transpose(self.matrix)), "float32")
        logits = logits if self.bias is None else logits + self.bias
        return ops.log_softmax(logits / self.temperature, axis=-1)


def pairs_in_chunks(*tensors: tuple[Tensor, int]) -> list[Tensor]:
    """Chunks for R-Drop and SimCut, where two consecutive rows belong to one sentence.

    In each chunk of `FusedCrossEntropy`, the second states of its tokens follow the
    first.

    Args:
        tensors: (2 B, T, ...), each with the value that fills up the last chunk.

    Returns:
        (1, 2 M, ...) each, where M is rounded up to fill the chunks.
    """
    num_tokens, num_chunks = _count(tensors[0][0])
    missing = _missing(num_tokens // 2, num_chunks)
    length = ops.shape(tensors[0][0])[1]
    arranged = []
    for tensor, filler in tensors:
        rest = tensor.shape[2:]
        pairs = ops.swapaxes(ops.reshape(tensor, (-1, 2, length, *rest)), 0, 1)
        halves = [
            _fill_up(ops.reshape(half, (-1, *rest)), missing, filler)
            for half in (pairs[0], pairs[1])
        ]
        halves = [ops.reshape(half, (num_chunks, -1, *rest)) for half in halves]
        arranged.append(ops.reshape(ops.concatenate(halves, axis=1), (1, -1, *rest)))
    return arranged


class _Output(NamedTuple):
    """The linear layer, with as many entries as products on this device like.

    Those that are added to the V of the vocabulary have no probability.
    """

    matrix: Tensor  # (V or more, D)
    bias: Tensor | None  # (V or more,)
    mean_row: Tensor  # (D,), of the V, in float32
    mean_bias: Tensor | float  # of the V
    vocabulary_size: int

    @classmethod
    def of(cls, matrix: Tensor, bias: Tensor | None) -> _Output:
        vocabulary_size = matrix.shape[0]
        mean_row = ops.mean(ops.cast(matrix, "float32"), axis=0)
        mean_bias = 0.0 if bias is None else ops.mean(bias)
        matrix, bias = _enlarged(matrix, bias)
        return cls(matrix, bias, mean_row, mean_bias, vocabulary_size)


def _enlarged(matrix: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
    """See `_Output`."""
    vocabulary_size = matrix.shape[0]
    missing = -vocabulary_size % backends.product_multiple()
    if not missing:
        return matrix, bias
    if bias is None:
        bias = ops.zeros((vocabulary_size,), "float32")
    matrix = ops.pad(matrix, [[0, missing], [0, 0]])
    return matrix, ops.pad(bias, [[0, missing]], constant_values=_IMPOSSIBLE)


class FusedCrossEntropy:
    """Linear layer, softmax and loss of one batch, chunk by chunk.

    Each method takes hidden states (B, T, D), the matrix (V, D) and the bias (V,) or
    None. The sums are [loss, log-likelihood, correct tokens, tokens]. Under R-Drop and
    SimCut the tensors come from `pairs_in_chunks`.
    """

    def __init__(
        self,
        labels: Tensor,
        weights: Tensor,
        label_smoothing: float,
        pad_id: int,
        r_drop: float = 0.0,
        simcut: float = 0.0,
        teacher: Teacher | None = None,
    ) -> None:
        self.teacher = teacher
        if teacher is not None:
            matrix, bias = _enlarged(teacher.matrix, teacher.bias)
            self.teacher = teacher._replace(matrix=matrix, bias=bias)
        self.r_drop = r_drop
        self.simcut = simcut
        self.labels = labels
        self.weights = ops.cast(weights, "float32")
        self.label_smoothing = label_smoothing
        self.pad_id = pad_id

    def sums(
        self, hidden: Tensor, matrix: Tensor, bias: Tensor | None = None
    ) -> Tensor:
        output = _Output.of(matrix, bias)

        def step(sums: Tensor, chunk: tuple[Tensor, ...]) -> tuple[Tensor, Any]:
            return sums + self._forward(chunk, output)[0], ()

        chunks, _ = self._chunks(hidden)
        return backends.scan(step, ops.zeros((4,), "float32"), chunks)[0]

    def with_gradients(
        self, hidden: Tensor, matrix: Tensor, bias: Tensor | None = None
    ) -> tuple[Tensor, Callable[..., Any]]:
        """The sums, and the gradient function in the form that Keras expects.

        d loss / d logits = weight * (softmax - (1 - ε) one-hot - ε / V). Only the
        softmax is multiplied as a matrix over the vocabulary, and its rows are scaled
        after the product, where they have D entries, not V.
        """
        vocabulary_size = matrix.shape[0]
        output = _Output.of(matrix, bias)
        chunks, num_tokens = self._chunks(hidden)

        def step(carry: Tensors, chunk: tuple[Tensor, ...]) -> tuple[Tensors, Tensor]:
            sums, matrix_gradient, bias_gradient = carry
            states, _, weights = chunk[:3]
            added, unnormalized, total = self._forward(chunk, output)
            sums = sums + added
            scale = ops.expand_dims(weights / total, -1)  # (M / C, 1)
            if bias is not None:
                bias_gradient = bias_gradient + ops.sum(unnormalized * scale, axis=0)
            unnormalized = ops.cast(unnormalized, matrix.dtype)  # (M / C, V)
            scale = ops.cast(scale, matrix.dtype)
            matrix_gradient = matrix_gradient + ops.cast(
                ops.matmul(ops.transpose(unnormalized), scale * states), "float32"
            )
            states_gradient = scale * ops.matmul(unnormalized, output.matrix)
            return (sums, matrix_gradient, bias_gradient), states_gradient

        carry = (
            ops.zeros((4,), "float32"),
            ops.zeros(output.matrix.shape, "float32"),
            ops.zeros(output.matrix.shape[:1] if bias is not None else (), "float32"),
        )
        (sums, matrix_gradient, bias_gradient), states_gradient = backends.scan(
            step, carry, chunks
        )
        matrix_gradient = matrix_gradient[:vocabulary_size]
        states, labels, weights = chunks[:3]
        if self.simcut:
            weights = weights * _is_first(weights)
        if self.teacher is not None:
            weights = weights * (1.0 - self.teacher.weight)
        states, labels, weights = (
            ops.reshape(c, (-1, *c.shape[2:])) for c in (states, labels, weights)
        )
        weights = weights + nan_of_unknown(labels, self.pad_id, vocabulary_size)
        weights = ops.expand_dims(weights, -1)  # (M, 1)
        labels = rows_of_labels(labels, vocabulary_size)
        target = self._target(matrix, output.mean_row, labels)
        hidden_gradient = ops.reshape(states_gradient, ops.shape(states))
        hidden_gradient = hidden_gradient - ops.cast(weights, matrix.dtype) * target
        hidden_gradient = ops.reshape(hidden_gradient[:num_tokens], ops.shape(hidden))
        rows = weights * ops.cast(states, "float32")
        matrix_gradient = matrix_gradient - self._target_sums(matrix, rows, labels)
        gradients = [hidden_gradient, ops.cast(matrix_gradient, matrix.dtype)]
        if bias is not None:
            sums_of_bias = self._target_sums(matrix, weights[:, 0], labels)
            gradients.append(bias_gradient[:vocabulary_size] - sums_of_bias)

        def gradient(
            *arguments: Tensor, upstream: Tensor | None = None
        ) -> tuple[Tensor, ...]:
            if upstream is None:
                (upstream,) = arguments
            scale = upstream[0]  # only the loss has a gradient
            return tuple(ops.cast(scale, g.dtype) * g for g in gradients)

        return sums, gradient

    def _target(self, matrix: Tensor, mean_row: Tensor, labels: Tensor) -> Tensor:
        """The smoothed labels times the matrix: (M, D)."""
        smoothing = self.label_smoothing
        one_hot = (1.0 - smoothing) * ops.take(matrix, labels, axis=0)
        return one_hot + smoothing * ops.cast(mean_row, matrix.dtype)

    def _target_sums(self, matrix: Tensor, rows: Tensor, labels: Tensor) -> Tensor:
        """The transposed smoothed labels times rows (M, ...): (V, ...)."""
        smoothing, vocabulary_size = self.label_smoothing, matrix.shape[0]
        one_hot = (1.0 - smoothing) * ops.segment_sum(rows, labels, vocabulary_size)
        return one_hot + smoothing / vocabulary_size * ops.sum(rows, axis=0)

    def _forward(
        self,
        chunk: tuple[Tensor, ...],
        output: _Output,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """The sums of a chunk; p t (M / C, V) and t (M / C,).

        t are the sums of exp(logits - maximum). The gradient of a token's loss in its
        logits is p - (1 - ε) one-hot - ε / V: p is the softmax, plus the gradient of
        the R-Drop or SimCut term. Under SimCut only the first of two states has a
        cross-entropy and is counted; p of the second is the gradient of the term. With
        a teacher of weight w, the gradient is p - (1 - w) ((1 - ε) one-hot + ε / V).
        """
        states, labels, weights = chunk[:3]
        logits = ops.matmul(states, ops.transpose(output.matrix))
        logits = ops.cast(logits, "float32")
        logits = logits if output.bias is None else logits + output.bias
        highest = ops.max(logits, axis=-1, keepdims=True)
        exponentials = backends.exp_of_difference(logits, highest)
        total = ops.sum(exponentials, axis=-1)
        highest = ops.squeeze(highest, -1)
        # The mean over the vocabulary, without another pass over the logits.
        mean = ops.sum(ops.cast(states, "float32") * output.mean_row, axis=-1)
        rows = rows_of_labels(labels, output.vocabulary_size)
        unknown = nan_of_unknown(labels, self.pad_id, output.vocabulary_size)
        losses, log_likelihoods, right = token_terms(
            label_scores(logits, rows) + unknown,
            highest,
            highest + ops.log(total),
            mean + output.mean_bias,
            self.label_smoothing,
        )
        unnormalized = exponentials
        if self.r_drop:
            divergence, gradient = _divergence(
                logits, exponentials, ops.expand_dims(total, -1)
            )
            losses = losses + self.r_drop / 2 * divergence
            unnormalized = exponentials + self.r_drop / 2 * gradient
        mask = token_mask(labels, self.pad_id)
        if self.simcut:
            divergence, gradient = _one_divergence(
                logits, exponentials, ops.expand_dims(total, -1)
            )
            is_first = _is_first(losses)
            losses = is_first * (losses + self.simcut * divergence)
            mask = is_first * mask
            unnormalized = ops.expand_dims(is_first, -1) * exponentials
            unnormalized = unnormalized + self.simcut * gradient
        if self.teacher is not None:
            divergence, gradient = _teacher_divergence(
                self.teacher, chunk[3], logits, exponentials, total
            )
            weight = self.teacher.weight
            losses = (1.0 - weight) * losses + weight * divergence
            unnormalized = (1.0 - weight) * exponentials + weight * gradient
        terms = (weights * losses, mask * log_likelihoods, mask * right, mask)
        return ops.stack([ops.sum(term) for term in terms]), unnormalized, total

    def _chunks(self, hidden: Tensor) -> tuple[tuple[Tensor, ...], int | Tensor]:
        """((C, M/C, D), (C, M/C), (C, M/C)) with padding of weight 0, and M.

        M/C is a multiple of what products on this device like.

        The states of a teacher are a fourth, (C, M/C, D).
        """
        num_tokens, num_chunks = _count(hidden)
        chunks = []
        tensors = [
            (ops.reshape(hidden, (-1, hidden.shape[-1])), 0),
            (ops.reshape(self.labels, (-1,)), self.pad_id),
            (ops.reshape(self.weights, (-1,)), 0),
        ]
        if self.teacher is not None:
            states = self.teacher.hidden
            tensors.append((ops.reshape(states, (-1, states.shape[-1])), 0))
        for tensor, filler in tensors:
            tensor = _fill_up(tensor, _missing(num_tokens, num_chunks), filler)
            shape = (num_chunks, -1, *tensor.shape[1:])
            chunks.append(ops.reshape(tensor, shape))
        return tuple(chunks), num_tokens


def _count(hidden: Tensor) -> tuple[int | Tensor, int]:
    """Tokens and chunks of hidden states (B, T, D)."""
    if None in hidden.shape[:2]:
        rows, length = ops.shape(hidden)[:2]
        return rows * length, NUM_CHUNKS
    num_tokens = math.prod(hidden.shape[:2])
    return num_tokens, math.ceil(num_tokens / backends.chunk_tokens())


def _missing(num_tokens: int | Tensor, num_chunks: int) -> int | Tensor:
    """How many tokens are to be added, so that each chunk is a `product_multiple`."""
    return -num_tokens % (num_chunks * backends.product_multiple())


def _fill_up(tensor: Tensor, count: int | Tensor, filler: float) -> Tensor:
    """(M, ...) -> (M + count, ...)."""
    if isinstance(count, int) and not count:
        return tensor
    widths = [[0, count]] + [[0, 0]] * (len(tensor.shape) - 1)
    return ops.pad(tensor, widths, constant_values=filler)


def _divergence(
    logits: Tensor, exponentials: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """KL(P, Q) of each token's P to the Q of its pair: (M,).

    And t times the gradient of KL(P, Q) + KL(Q, P) in the logits of P: (M, V).

    Args:
        logits: (M, V), the second of each pair M / 2 rows after the first.
        exponentials: (M, V), exp(logits - maximum).
        total: (M, 1), their sums, t.
    """
    ratio, p, q, p_total, q_total = _pairs(logits, exponentials, total)
    pq = ops.sum(p * ratio, axis=-1, keepdims=True) / p_total
    qp = -ops.sum(q * ratio, axis=-1, keepdims=True) / q_total
    p_gradient = p * (1.0 - pq + ratio) - q * (p_total / q_total)
    q_gradient = q * (1.0 - qp - ratio) - p * (q_total / p_total)
    divergence = ops.squeeze(ops.concatenate([pq, qp]), -1)
    return divergence, ops.concatenate([p_gradient, q_gradient])


def _one_divergence(
    logits: Tensor, exponentials: Tensor, total: Tensor
) -> tuple[Tensor, Tensor]:
    """KL(P, Q) of each pair, for both of its tokens: (M,).

    And t times its gradient in the logits of P, then of Q: (M, V). The arguments are
    those of `_divergence`.
    """
    ratio, p, q, p_total, q_total = _pairs(logits, exponentials, total)
    divergence = ops.sum(p * ratio, axis=-1, keepdims=True) / p_total
    gradients = [p * (ratio - divergence), q - p * (q_total / p_total)]
    divergence = ops.squeeze(ops.concatenate([divergence] * 2), -1)
    return divergence, ops.concatenate(gradients)


def _teacher_divergence(
    teacher: Teacher,
    states: Tensor,
    logits: Tensor,
    exponentials: Tensor,
    total: Tensor,
) -> tuple[Tensor, Tensor]:
    """τ^2 KL(teacher, student) of each token, and t times its gradient in the logits.

    Args:
        teacher: of this batch.
        states: (M, D) of the teacher.
        logits: (M, V) of the student.
        exponentials: (M, V), exp(logits - maximum).
        total: (M,), their sums, t.

    Returns:
        (M,) and (M, V).
    """
    total = ops.expand_dims(total, -1)
    wanted = teacher.log_probabilities(states)
    temperature = teacher.temperature
    if temperature == 1.0:
        highest = ops.max(logits, axis=-1, keepdims=True)
        found, scaled = logits - highest - ops.log(total), exponentials
    else:
        found = ops.log_softmax(logits / temperature, axis=-1)
        scaled = total * ops.exp(found)
    probabilities = ops.exp(wanted)
    divergence = ops.sum(probabilities * (wanted - found), axis=-1)
    gradient = temperature * (scaled - total * probabilities)
    return temperature**2 * divergence, gradient


def _pairs(logits: Tensor, exponentials: Tensor, total: Tensor) -> list[Tensor]:
    """Log P - log Q of each pair, t P and t Q, and the t of both: (M / 2, V or 1)."""
    log_normalizer = ops.max(logits, axis=-1, keepdims=True) + ops.log(total)
    log_p, log_q = ops.split(logits - log_normalizer, 2)
    return [log_p - log_q, *ops.split(exponentials, 2), *ops.split(total, 2)]


def _is_first(tensor: Tensor) -> Tensor:
    """1 for the first half of the last axis, M / C tokens, 0 for the other."""
    count = ops.shape(tensor)[-1]
    places = ops.arange(0, count, dtype="int32")
    return ops.cast(ops.less(places, count // 2), "float32")
