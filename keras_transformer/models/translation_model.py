"""What every translation model of this package shares: the loss that it fuses.

B batch, T target positions, S source positions, D hidden_dim, V target vocabulary.
"""

import contextlib
import contextvars
from typing import Any
from typing import NamedTuple

import keras
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.decoding.beam_groups import gather_all
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models.gradients import GradientNorm
from keras_transformer.models.gradients import global_norm


class _Step(NamedTuple):
    """What the loss must know of the training or test step of `model` that is running.

    `num_shares` counts the parts of the batch whose losses Keras averages: parts that
    follow one another, and processes that do not know of each other. `num_tokens` is
    the number of target tokens in the whole batch, where it comes without weights.
    """

    model: Any
    training: bool
    num_shares: int
    num_tokens: Any


# TensorFlow runs the steps of its replicas in threads, each with a value of its own.
_running_step = contextvars.ContextVar("running_step", default=None)


class TranslationModel(keras.Model):
    """A functional `keras.Model` that gives logits, and trains without holding them.

    Under `LabelSmoothedCrossEntropy`, the training and test steps of plain `fit` and
    `evaluate` take the hidden states before the output matrix and compute loss,
    gradients and token metrics in chunks (`losses.py`): B x T x V logits never exist.
    Metrics that need logits, and float16, turn this off. A call, and `predict`, give
    logits always.

    A subclass has a `config_class`, and gives `make_layers(config, policy)`: layers by
    the names of attributes, `output_embedding` (with `embeddings` (V, D) and `bias`)
    among them; `decode(target, memory, source_mask, training)` (B, T, D); and the
    decoding contract `encode`, `start`, `decode_step`, whose first part gives memory
    (B, S, D) and source mask (B, S) and whose constants have a `bias` (B, 1, 1, S).

    Args:
        config: of `config_class`, or the dictionary of its fields.
        dtype: a dtype policy; default Keras' global one.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762.
    """

    _fused = False  # whether a compiled loss and metrics allow it
    _micro_batches = 1

    def __init__(self, config, dtype=None, **kwargs):
        if not isinstance(config, self.config_class):
            config = self.config_class.from_dict(config)
        policy = keras.dtype_policies.get(dtype or keras.config.dtype_policy())
        # Past the attribute hooks, which want `super().__init__` first; the weights are
        # tracked through the functional graph.
        vars(self).update(config=config, **self.make_layers(config, policy))
        source = keras.Input((None,), dtype="int32", name="source")
        target = keras.Input((None,), dtype="int32", name="target")
        hidden = self.hidden_states({"source": source, "target": target})
        super().__init__(
            inputs={"source": source, "target": target},
            outputs=self.logits(hidden),
            **kwargs,
        )
        self.dtype_policy = policy

    def hidden_states(self, inputs, training=None):
        """The decoder's output (B, T, D), which `logits` turns into scores."""
        memory, source_mask = self.encode(inputs["source"], training=training)
        return self.decode(inputs["target"], memory, source_mask, training=training)

    def logits(self, hidden):
        """(..., D) -> (..., V) in float32."""
        return self.output_embedding(hidden, reverse=True)

    def start_search(self, memory, source_mask, beam_size, length):
        """As `start`, laid out as a search's loop is fast on, its cache for `reorder`.

        The step that follows is `decode_step` all the same.
        """
        return self.start(memory, source_mask, beam_size, length)

    def reorder(self, cache, beams):
        """The cache after which hypothesis w continues `beams[:, w]`: (B, W) int32."""
        return gather_all(cache, beams)

    def call(self, inputs, training=None, mask=None):
        for side in ("source", "target"):
            self._check_ids(side, inputs[side])
        inputs = tree.map_structure(lambda ids: ops.cast(ids, "int32"), inputs)
        fused = self._fused and self._step
        if fused and self._step.training and self.loss.r_drop:
            inputs = tree.map_structure(lambda ids: ops.repeat(ids, 2, axis=0), inputs)
        hidden = self.hidden_states(inputs, training=training)
        return hidden if fused else self.logits(hidden)

    @property
    def micro_batches(self):
        """In how many parts, one after the other, `fit` works off each batch.

        Memory is that of one part; the update, the schedule, the moving average of
        weights, loss and metrics are those of the whole batch. Its rows must divide by
        this number. Needs `LabelSmoothedCrossEntropy`; no file keeps it.
        """
        return self._micro_batches

    @micro_batches.setter
    def micro_batches(self, count):
        if type(count) is not int or count < 1:
            raise InputError(f"micro_batches must be a positive number, got {count!r}")
        self._micro_batches = count
        self.train_function = None  # Keras makes it anew, as after `compile`

    @property
    def _step(self):
        step = _running_step.get()
        return step if step is not None and step.model is self else None

    @property
    def fed_metrics(self):
        """The compiled metrics that the training step feeds, not Keras."""
        return [*self._token_metrics, *self._gradient_norms]

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        metrics=None,
        weighted_metrics=None,
        **kwargs,
    ):
        """`keras.Model.compile`; see the class for what is fused."""
        compiled = tree.flatten([metrics, weighted_metrics])
        self._token_metrics = [m for m in compiled if hasattr(m, "update_statistics")]
        self._gradient_norms = [m for m in compiled if isinstance(m, GradientNorm)]
        others = [m for m in compiled if m not in [None, *self.fed_metrics]]
        # In float16 gradients underflow before a loss scale could save them.
        wide = self.compute_dtype != "float16"
        fusing = isinstance(loss, LabelSmoothedCrossEntropy)
        self._fused = fusing and wide and not others
        if fusing and loss.r_drop and not self._fused:
            reason = f"the metrics {others}" if wide else "float16"
            raise InputError(
                f"r_drop {loss.r_drop} needs the fused loss, which {reason} turn off; "
                f"train without them, or set r_drop to 0"
            )
        super().compile(
            optimizer=optimizer,
            loss=loss,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        if self._step and isinstance(self.loss, LabelSmoothedCrossEntropy):
            sample_weight = self._loss_weights(y, sample_weight)
        if not (self._fused and self._step):
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        loss, statistics = self.loss.fused(
            y_pred,
            self.output_embedding.embeddings,
            self.output_embedding.bias,
            y,
            sample_weight,
            training=training,
        )
        for metric in self._token_metrics:
            metric.update_statistics(statistics)
        return loss

    def compute_metrics(self, x, y, y_pred, sample_weight=None):
        if self._fused and self._step:  # `compute_loss` has updated them
            metrics = self._compile_metrics
            if metrics is not None and not metrics.built:
                metrics.build(y, y_pred)
            return self.get_metrics_result()
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_metrics_result(self):
        results = super().get_metrics_result()
        if self._step and not self._step.training:
            for metric in self._gradient_norms:
                results.pop(metric.name, None)
        return results

    def note_gradients(self, gradients):
        """Called in each training step with the gradient that is to be applied."""
        if self._gradient_norms:
            norm = global_norm(gradients) / self.optimizer.scale_loss(1.0)
            for metric in self._gradient_norms:
                metric.update_norm(norm)

    def fit(self, *arguments, **options):
        """`keras.Model.fit`."""
        with backends.feeding():
            return super().fit(*arguments, **options)

    def evaluate(self, *arguments, **options):
        """`keras.Model.evaluate`."""
        with backends.feeding():
            return super().evaluate(*arguments, **options)

    def train_step(self, *arguments):
        with self._running(arguments[-1], training=True):
            return backends.train_step(self, super().train_step, *arguments)

    def test_step(self, *arguments):
        with self._running(arguments[-1], training=False):
            return backends.test_step(self, super().test_step, *arguments)

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        default = super()._maybe_symbolic_build
        backends.symbolic_build(default, self, iterator, data_batch)

    @contextlib.contextmanager
    def _running(self, data, training):
        """A step on a batch (x, y, weights)."""
        inputs, labels, weights = keras.utils.unpack_x_y_sample_weight(data)
        parts = self.micro_batches if training else 1
        if parts > 1:
            self._check_parts(tree.flatten(inputs)[0].shape[0])
        num_tokens = None
        if weights is None and isinstance(self.loss, LabelSmoothedCrossEntropy):
            mask = self._token_mask(labels)
            num_tokens = backends.sum_over_replicas(ops.sum(mask))
        num_shares = parts * backends.num_separate_losses()
        token = _running_step.set(_Step(self, training, num_shares, num_tokens))
        try:
            yield
        finally:
            _running_step.reset(token)

    def _check_parts(self, num_rows):
        parts = self.micro_batches
        if not isinstance(self.loss, LabelSmoothedCrossEntropy):
            raise InputError(
                f"micro_batches {parts} needs the loss LabelSmoothedCrossEntropy; "
                f"compile with it, or set micro_batches to 1"
            )
        if num_rows is not None and num_rows % parts:
            raise InputError(
                f"a batch of {num_rows} rows cannot be split into micro_batches "
                f"{parts}; give TokenBatches rows_multiple_of={parts} (times the "
                f"number of replicas)"
            )

    def _token_mask(self, labels):
        tokens = ops.not_equal(ops.cast(labels, "int32"), self.loss.pad_id)
        return ops.cast(tokens, "float32")

    def _loss_weights(self, labels, weights):
        """Such that the mean of the losses of all shares is the loss of the batch."""
        step = self._step
        if weights is None:
            weights = self._token_mask(labels) / ops.maximum(step.num_tokens, 1.0)
        return weights if step.num_shares == 1 else weights * step.num_shares

    def _check_ids(self, side, ids):
        """Refuses ids outside of the vocabulary: not every backend would."""
        ids = backends.concrete(ids)
        size = getattr(self.config, f"{side}_vocabulary_size")
        if ids is not None and ids.size and not 0 <= ids.min() <= ids.max() < size:
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise InputError(
                f"{side} holds the id {wrong}, outside of the vocabulary of {size} "
                f"entries; encode it with the model's own tokenizer"
            )

    def get_config(self):
        return {
            "config": self.config.model_dump(),
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "name": self.name,
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config, custom_objects=None):
        return cls(**config)
