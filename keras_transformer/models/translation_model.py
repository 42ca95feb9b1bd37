"""What every translation model of this package shares: the loss that it fuses.

B batch, T target positions, D hidden_dim, V target vocabulary.
"""

import contextlib

import keras
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy


class TranslationModel(keras.Model):
    """A functional `keras.Model` that gives logits, and trains without holding them.

    Under `LabelSmoothedCrossEntropy`, the training and test steps of plain `fit` and
    `evaluate` take the hidden states before the output matrix and compute loss,
    gradients and token metrics in chunks (`losses.py`): B x T x V logits never exist.
    Metrics that need logits, and float16, turn this off. A call, and `predict`, give
    logits always.

    A subclass has a `config` and a `config_class`, gives `hidden_states(inputs,
    training)` (B, T, D), `logits(hidden)` and `output_embedding` (with `embeddings`
    (V, D) and `bias`), and the decoding contract `encode`, `start`, `decode_step`.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762.
    """

    _fused = False  # whether a compiled loss and metrics allow it
    _in_step = False  # whether a training or test step is running

    def call(self, inputs, training=None, mask=None):
        for side in ("source", "target"):
            self._check_ids(side, inputs[side])
        inputs = tree.map_structure(lambda ids: ops.cast(ids, "int32"), inputs)
        hidden = self.hidden_states(inputs, training=training)
        return hidden if self._fused and self._in_step else self.logits(hidden)

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
        others = [m for m in compiled if m is not None and m not in self._token_metrics]
        # In float16 gradients underflow before a loss scale could save them.
        wide = self.compute_dtype != "float16"
        fusing = isinstance(loss, LabelSmoothedCrossEntropy)
        self._fused = fusing and wide and not others
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
        if not (self._fused and self._in_step):
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
        if self._fused and self._in_step:  # `compute_loss` has updated them
            metrics = self._compile_metrics
            if metrics is not None and not metrics.built:
                metrics.build(y, y_pred)
            return self.get_metrics_result()
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def train_step(self, *arguments):
        with self._step():
            return backends.train_step(self, super().train_step, *arguments)

    def test_step(self, *arguments):
        with self._step():
            return super().test_step(*arguments)

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

    @contextlib.contextmanager
    def _step(self):
        self._in_step = True
        try:
            yield
        finally:
            self._in_step = False

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
