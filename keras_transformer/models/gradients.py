"""The size of the gradient of each step."""

import keras
from keras import ops


def global_norm(gradients):
    """Sqrt of the sum of all squares, None left out: a float32 scalar."""
    squares = [
        ops.sum(ops.square(ops.cast(gradient, "float32")))
        for gradient in gradients
        if gradient is not None
    ]
    return ops.sqrt(sum(squares))


@keras.saving.register_keras_serializable(package="keras_transformer")
class GradientNorm(keras.metrics.Metric):
    """The Euclidean norm of the whole gradient before clipping, mean over steps.

    "Whole" is of all weights, of embeddings (V, D) as of biases (D,), and of the global
    batch: summed over replicas, processes and micro-batches.
    The models of this package feed it in `fit`; it appears in no logs of `evaluate`.
    Steps whose gradient is not finite, as the first ones of a float16 training may be,
    are left out.

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

    def __init__(self, name="gradient_norm", dtype=None):
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight(name="total", shape=(), initializer="zeros")
        self.count = self.add_weight(name="count", shape=(), initializer="zeros")

    def update_state(self, y_true, y_pred, sample_weight=None):
        """Nothing: a norm cannot be told from predictions."""

    def update_norm(self, norm):
        """Adds the norm of a step, a float32 scalar."""
        finite = ops.isfinite(norm)
        self.total.assign_add(ops.where(finite, norm, 0.0))
        self.count.assign_add(ops.cast(finite, self.count.dtype))

    def result(self):
        return ops.divide_no_nan(self.total, self.count)
