"""Cross-entropy with label smoothing: on logits, and fused with the output matrix.

Both forms give the same numbers.

B batch, T target positions, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

import math
from typing import Any

import keras
from keras import ops

from keras_transformer.losses.cross_entropy import TokenStatistics
from keras_transformer.losses.cross_entropy import default_weights
from keras_transformer.losses.cross_entropy import token_losses
from keras_transformer.losses.fused_cross_entropy import FusedCrossEntropy
from keras_transformer.losses.fused_cross_entropy import Teacher
from keras_transformer.losses.fused_cross_entropy import pairs_in_chunks
from keras_transformer.losses.labels import PaddingOfModel
from keras_transformer.losses.labels import check_labels
from keras_transformer.losses.labels import check_weights
from keras_transformer.losses.labels import token_mask
from keras_transformer.tensors import Tensor


def _token_weights(
    labels: Tensor, pad_id: int, sample_weight: Tensor, vocabulary_size: int
) -> Tensor:
    """The weight of each token's loss, which broadcasts to the labels: float32.

    Args:
        labels: (B, T) int.
        pad_id: the label that does not count.
        sample_weight: (B, T) weights of tokens; (B, 1) weights of sentences, applied to
            each token but padding; None for `default_weights`.
        vocabulary_size: V. Padding outside of the vocabulary always has weight 0.

    Raises:
        ValueError: where the weights have another shape.
    """
    if sample_weight is None:
        return default_weights(labels, pad_id)
    check_weights(sample_weight, labels)
    return ops.cast(sample_weight, "float32") * token_mask(labels, pad_id)


@keras.saving.register_keras_serializable(package="keras_transformer")
class LabelSmoothedCrossEntropy(PaddingOfModel, keras.losses.Loss):
    """The sum of weight * cross-entropy against smoothed labels, per target token.

    With the weights of `TokenBatches` (1 / tokens of the global batch) the sum is
    exactly the mean per token, however the batch is split over devices and
    micro-batches. Without weights it is the mean over all tokens but padding.

    Models of this package compute it fused with their output matrix in `fit` and
    `evaluate`, unless a compiled metric needs the logits.

    Args:
        label_smoothing: ε, in [0, 1); the paper's is 0.1.
        pad_id: the label of padding, which does not count; may be outside of the
            vocabulary, such as -100. Default: that of the model of this package that is
            compiled with it; 0 with other models.
        r_drop: the α of R-Drop, 0 for none; its paper uses 5 for translation. In `fit`,
            a model of this package then passes each sentence twice, with two dropout
            masks, and the loss is the mean of both plus α / 4 times the divergence of
            their distributions P and Q, KL(P, Q) + KL(Q, P), at each token. Steps take
            twice as long; a call on logits, and `evaluate`, ignore it.
        simcut: the α of SimCut, 0 for none; its paper uses 3 for translation. In `fit`,
            a `Transformer` then passes each sentence twice, the second time with some
            embeddings set to zero, and the loss is that of the first pass plus
            α KL(P, Q), the divergence of the second pass's distribution Q from the
            first one's P, at each token. Both learn from it. Takes as long as R-Drop.
        simcut_probability: of each token of source and target to be cut, other than
            start and end; its paper uses 0.05.
        distillation: the weight w of word-level distillation, from 0 for none to 1. In
            `fit`, a model of this package that has a `teacher` then learns from
            1 - w times the cross-entropy plus w τ^2 KL(P, Q), where P and Q are the
            distributions of teacher and model, at each token. A call on logits, and
            `evaluate`, ignore it. Not together with R-Drop or SimCut.
        temperature: τ, which divides the logits of both in that divergence.

    Call arguments:
        y_true: labels (B, T) int.
        y_pred: logits (B, T, V).
        sample_weight: (B, T) float32 per token, or (B, 1) per sentence.

    Raises:
        ValueError: where labels or weights have another shape, or a number is out of
            its range; two of R-Drop, SimCut and distillation.

    Example:

    >>> from keras import ops
    >>> from keras_transformer.losses import LabelSmoothedCrossEntropy
    >>> loss = LabelSmoothedCrossEntropy(0.1)
    >>> round(float(loss(ops.array([[3, 1, 0]]), ops.zeros((1, 3, 7)))), 4)  # ln 7
    1.9459

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 5.4;
    R-Drop: Liang et al., 2021, https://arxiv.org/abs/2106.14448, equations 2 to 4;
    SimCut: Gao et al., 2022, https://arxiv.org/abs/2206.02368, section 3;
    distillation: Kim and Rush, 2016, https://arxiv.org/abs/1606.07947, section 3.1;
    temperature: Hinton et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        pad_id: int | None = None,
        r_drop: float = 0.0,
        name: str = "label_smoothed_cross_entropy",
        simcut: float = 0.0,
        simcut_probability: float = 0.05,
        distillation: float = 0.0,
        temperature: float = 1.0,
    ) -> None:
        if not 0.0 <= label_smoothing < 1.0:
            raise ValueError(
                f"label_smoothing must be in [0, 1), got {label_smoothing}"
            )
        if not 0.0 <= r_drop < math.inf:
            raise ValueError(f"r_drop must be 0 or more, got {r_drop}")
        if not 0.0 <= simcut < math.inf:
            raise ValueError(f"simcut must be 0 or more, got {simcut}")
        if not 0.0 < simcut_probability < 1.0:
            raise ValueError(
                f"simcut_probability must be between 0 and 1, got {simcut_probability}"
            )
        if r_drop and simcut:
            raise ValueError(
                f"r_drop {r_drop} and simcut {simcut} both pass each sentence twice; "
                f"set one of them to 0"
            )
        if not 0.0 <= distillation <= 1.0:
            raise ValueError(f"distillation must be in [0, 1], got {distillation}")
        if not 0.0 < temperature < math.inf:
            raise ValueError(f"temperature must be above 0, got {temperature}")
        if distillation and (r_drop or simcut):
            raise ValueError(
                f"distillation {distillation} does not go with r_drop or simcut, which "
                f"pass each sentence twice; set one of them to 0"
            )
        # Not Keras' floatx: half precision would round labels.
        super().__init__(name=name, reduction="sum", dtype="float32")
        self.label_smoothing = label_smoothing
        self.set_pad_id(pad_id)
        self.r_drop = r_drop
        self.simcut = simcut
        self.simcut_probability = simcut_probability
        self.distillation = distillation
        self.temperature = temperature

    @property
    def passes_twice(self) -> bool:
        """Whether training passes each sentence twice."""
        return bool(self.r_drop or self.simcut)

    def __call__(
        self, y_true: Tensor, y_pred: Tensor, sample_weight: Tensor | None = None
    ) -> Tensor:
        check_labels(y_true, y_pred.shape[:-1])
        size = y_pred.shape[-1]
        weights = _token_weights(y_true, self.pad_id, sample_weight, size)
        return super().__call__(y_true, y_pred, weights)

    def call(self, y_true: Tensor, y_pred: Tensor) -> Tensor:
        return token_losses(y_pred, y_true, self.label_smoothing, self.pad_id)[0]

    def fused(
        self,
        hidden: Tensor,
        matrix: Tensor,
        bias: Tensor,
        labels: Tensor,
        sample_weight: Tensor | None = None,
        training: bool = True,
        teacher: tuple[Tensor, Tensor, Tensor] | None = None,
    ) -> tuple[Tensor, TokenStatistics]:
        """The same loss from hidden states and output matrix.

        Args:
            hidden: (B, T, D) in the compute dtype; under R-Drop or SimCut in training
                (2 B, T, D), the two passes of each sentence adjacent.
            matrix: (V, D).
            bias: (V,) or None.
            labels: (B, T) int.
            sample_weight: (B, T) or (B, 1) float32, or None.
            training: whether gradients are computed.
            teacher: hidden states, matrix and bias of the teacher, as those of the
                model; they get no gradient.

        Returns:
            The loss, a float32 scalar, and `TokenStatistics`, under R-Drop of both,
            under SimCut of the first pass.
        """
        labels = ops.cast(labels, "int32")
        r_drop, simcut = (self.r_drop, self.simcut) if training else (0.0, 0.0)
        if not (r_drop or simcut):
            check_labels(labels, hidden.shape[:-1])
        sample_weight = _token_weights(
            labels, self.pad_id, sample_weight, matrix.shape[0]
        )
        if r_drop or simcut:
            labels = ops.repeat(labels, 2, axis=0)
            sample_weight = ops.repeat(sample_weight, 2, axis=0)
            if r_drop:
                sample_weight = sample_weight / 2
            hidden, labels, sample_weight = pairs_in_chunks(
                (hidden, 0), (labels, self.pad_id), (sample_weight, 0)
            )
        matrix = ops.cast(ops.convert_to_tensor(matrix), hidden.dtype)
        tensors = [hidden, matrix]
        if bias is not None:
            tensors.append(ops.cast(ops.convert_to_tensor(bias), "float32"))
        head = FusedCrossEntropy(
            labels,
            sample_weight,
            self.label_smoothing,
            self.pad_id,
            r_drop,
            simcut,
            self._teacher(*teacher) if teacher and training else None,
        )
        if training:
            sums = ops.custom_gradient(head.with_gradients)(*tensors)
        else:
            sums = head.sums(*tensors)
        return sums[0], TokenStatistics(
            *(ops.stop_gradient(sums[i]) for i in (1, 2, 3))
        )

    def _teacher(self, hidden: Tensor, matrix: Tensor, bias: Tensor) -> Teacher | None:
        if not self.distillation:
            return None
        hidden = ops.stop_gradient(hidden)
        matrix = ops.cast(ops.convert_to_tensor(matrix), hidden.dtype)
        if bias is not None:
            bias = ops.cast(ops.convert_to_tensor(bias), "float32")
        return Teacher(hidden, matrix, bias, self.distillation, self.temperature)

    def get_config(self) -> dict[str, Any]:
        return {
            "name": self.name,
            "label_smoothing": self.label_smoothing,
            "pad_id": self.known_pad_id,
            "r_drop": self.r_drop,
            "simcut": self.simcut,
            "simcut_probability": self.simcut_probability,
            "distillation": self.distillation,
            "temperature": self.temperature,
        }
