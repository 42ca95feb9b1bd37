"""Training steps with gradient accumulation and a loss that never holds the logits.

A training step, on each backend:

1. Keras calls `train_step`, which records that a step of this model runs and how its
   batch is divided (`_Step`), and passes Keras' step to `backends.train_step`.
2. That runs Keras' step on each micro-batch, without the optimizer's update. Keras'
   step calls the model, which returns hidden states; `compute_loss`, which computes
   loss and token statistics from them (`losses/fused_cross_entropy.py`) and updates the
   metrics; and `compute_metrics`, which only reads them. Then it takes the gradients.
3. The mean gradient of the micro-batches, summed over replicas, goes to
   `note_gradients` and then to the optimizer, once.

A test step is Keras' step, called in the same way. Where the loss or a metric prevents
fusion, Keras' step works on logits, as in any other model.

B batch, T target positions, D hidden_dim, V target vocabulary.
"""

from __future__ import annotations

import contextlib
import contextvars
import warnings
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

import keras
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.layers.dropout import Dropout
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.losses import default_weights
from keras_transformer.losses.labels import token_mask
from keras_transformer.metrics import GradientNorm
from keras_transformer.metrics import TokenMetric
from keras_transformer.metrics import global_norm
from keras_transformer.models.checked_model import CheckedModel
from keras_transformer.tensors import Tensor

_PACKAGE = __name__.partition(".")[0] + "."
#: The methods between hidden states and loss, which a fused step bypasses.
_BETWEEN = ("call", "logits", "compute_loss", "compute_metrics")


class _Step(NamedTuple):
    """The running training or test step of `model`, as far as the loss needs it.

    `num_shares` is the number of parts of the batch whose losses Keras averages:
    micro-batches, and independent processes. `num_tokens` is the number of target
    tokens of the whole batch; None with a loss of another class.
    """

    model: Any
    training: bool
    num_shares: int
    num_tokens: Any


# TensorFlow runs the steps of replicas in threads; each has a separate value.
_running_step: contextvars.ContextVar[_Step | None] = contextvars.ContextVar(
    "running_step", default=None
)


class _MeanOverTokens(keras.metrics.Mean):
    """The mean loss of several batches, in which each target token counts alike.

    Keras counts rows instead, of which a batch of short sentences has many.
    """

    def update_state(self, values: Any, sample_weight: Any = None) -> None:
        step = _running_step.get()
        if step is not None and step.num_tokens is not None:
            sample_weight = step.num_tokens
        super().update_state(values, sample_weight)


class FusedTraining(CheckedModel):
    """A `keras.Model` whose loss is fused with its output matrix.

    With `LabelSmoothedCrossEntropy`, the training and test steps of plain `fit` and
    `evaluate` take the hidden states (B, T, D) before the output matrix and compute
    loss, gradients and token metrics in chunks: B x T x V logits never exist. Fusion is
    turned off by metrics that need logits or have another `pad_id` than the loss, by
    float16, by `loss_weights`, and, with a warning, by a subclass that overrides a
    method between hidden states and loss (`call`, `logits`, `compute_loss`,
    `compute_metrics`). Calls and `predict` always return logits.

    A subclass has `hidden_states(inputs, training)`, `logits(hidden)`, and an
    `output_embedding` with `embeddings` (V, D) and a `bias`, (V,) or None.

    Reference: Hsu et al., 2024, https://arxiv.org/abs/2410.10989,
    FusedLinearCrossEntropy.
    """

    #: Whether dropout masks depend on rows of the whole batch, however it is split;
    #: False for runs of earlier versions, where each part drew its masks.
    draws_by_row = True

    #: Whether PyTorch's training steps are traced, `jit_compile` of `compile`.
    traces_steps = False

    _teacher: Any = None
    _fused = False  # whether a compiled loss and metrics allow it
    _micro_batches = 1

    def __setattr__(self, name: str, value: Any) -> None:
        if name in backends.untracked:  # Keras would wrap each list of it
            self.__dict__[name] = value
        elif name == "teacher":  # Keras would count its layers among those of the model
            object.__setattr__(self, name, value)
        elif name == "_loss_tracker" and value is not None:  # by Keras' `compile`
            super().__setattr__(name, _MeanOverTokens(name=value.name))
        else:
            super().__setattr__(name, value)

    def __call__(self, *arguments: Any, **options: Any) -> Any:
        backends.note_work()  # before Keras converts the arguments to tensors
        return super().__call__(*arguments, **options)

    def call(self, inputs: Any, training: bool | None = None, mask: Any = None) -> Any:
        """Logits (B, T, V); in a fused step, the hidden states for the loss."""
        if not self._fusing:
            return self.logits(self.hidden_states(inputs, training=training))
        if self._step.training and self.loss.passes_twice:
            inputs = tree.map_structure(lambda ids: ops.repeat(ids, 2, axis=0), inputs)
        return self.hidden_states(inputs, training=training)

    def check_cutoff(self) -> None:
        """Refuses SimCut for a model whose embeddings cannot be cut.

        Raises:
            InputError: always; a model that can overrides it.
        """
        raise InputError(
            f"simcut is for a Transformer, not for a {type(self).__name__}; use r_drop"
        )

    @property
    def cutoff(self) -> float:
        """The probability of SimCut to cut a token, 0 outside of its training steps."""
        if not (self._fusing and self._step.training and self.loss.simcut):
            return 0.0
        return self.loss.simcut_probability

    @property
    def micro_batches(self) -> int:
        """Gradient accumulation: the number of parts that `fit` splits a batch into.

        Memory is that of one part; update, schedule, moving average of weights, loss,
        metrics and dropout are those of the whole batch. The number of rows must be a
        multiple of this number. Needs `LabelSmoothedCrossEntropy`; not saved in files.
        """
        return self._micro_batches

    @micro_batches.setter
    def micro_batches(self, count: int) -> None:
        if type(count) is not int or count < 1:
            raise InputError(f"micro_batches must be a positive number, got {count!r}")
        self._micro_batches = count
        self.train_function = None  # Keras builds it again, as after `compile`

    @property
    def teacher(self) -> Any:
        """Distillation: the trained model whose distributions this one learns from.

        For the `distillation` of `LabelSmoothedCrossEntropy`. It must have the same
        vocabulary; it does not learn, and no file keeps it.

        Raises:
            InputError: when it is set, where the vocabularies differ in size.
        """
        return self._teacher

    @teacher.setter
    def teacher(self, teacher: Any) -> None:
        sizes = [
            model and model.config.target_vocabulary_size for model in (self, teacher)
        ]
        if teacher is not None and sizes[0] != sizes[1]:
            raise InputError(
                f"the teacher has {sizes[1]} entries in its target vocabulary, and the "
                f"model {sizes[0]}; a teacher needs the same tokenizer"
            )
        if teacher is not None:
            teacher.trainable = False
        self.__dict__["_teacher"] = teacher  # not a layer of this model
        self.train_function = None  # Keras builds it again, as after `compile`
        self.__dict__.pop("_traced_steps", None)

    @property
    def non_trainable_variables(self) -> list[Any]:
        """Those of the model, and the teacher's weights: a step takes them as they are.

        They would be constants of a compiled program otherwise.
        """
        return [*super().non_trainable_variables, *self._teacher_weights]

    @property
    def non_trainable_weights(self) -> list[Any]:
        """See `non_trainable_variables`."""
        return [*super().non_trainable_weights, *self._teacher_weights]

    @property
    def _teacher_weights(self) -> list[Any]:
        return [] if self._teacher is None else self._teacher.weights

    @property
    def dropout_seeds(self) -> list[Any]:
        """The seed generator states of dropout that is drawn by row."""
        layers = self._flatten_layers(include_self=False)
        dropouts = [x for x in layers if isinstance(x, Dropout) and x.draws_by_row]
        return [layer.seed_generator.state for layer in dropouts]

    @property
    def _step(self) -> Any:
        step = _running_step.get()
        return step if step is not None and step.model is self else None

    @property
    def _fusing(self) -> bool:
        """Whether a fused step is running."""
        return self._fused and self._step is not None

    @property
    def fed_metrics(self) -> list[Any]:
        """The compiled metrics that the fused step updates instead of Keras."""
        return [*self._token_metrics, *self._gradient_norms]

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        loss_weights: Any = None,
        **kwargs: Any,
    ) -> None:
        """`keras.Model.compile`; see the class for what is fused."""
        compiled = tree.flatten([metrics, weighted_metrics])
        fusing, pad_id = isinstance(loss, LabelSmoothedCrossEntropy), self.config.pad_id
        if fusing:
            loss.take_pad_id(pad_id)
            pad_id = loss.pad_id
        token_metrics = [m for m in compiled if isinstance(m, TokenMetric)]
        for metric in token_metrics:
            metric.take_pad_id(pad_id)
        self.counted_padding = {m.name: m.pad_id for m in token_metrics}
        fed = [
            m
            for m in token_metrics
            if _is_ours(m, "update_state")
            if m.pad_id == pad_id
        ]
        norms = [m for m in compiled if isinstance(m, GradientNorm)]
        # Keras would count them among the metrics of the model once more.
        self.__dict__["_token_metrics"] = fed
        self.__dict__["_gradient_norms"] = norms
        others = [m for m in compiled if m not in [None, *self.fed_metrics]]
        hindrance = self._hindrance(loss, others, loss_weights) if fusing else None
        self._fused = fusing and hindrance is None
        name = _needing_fusion(loss) if fusing else None
        if name and hindrance:
            raise InputError(
                f"{name} {getattr(loss, name)} needs the fused loss, which "
                f"{hindrance} turn off; train without them, or set {name} to 0"
            )
        if fusing and loss.simcut:
            self.check_cutoff()
        self.__dict__.pop("_traced_steps", None)
        self.traces_steps = False
        if backends.traces_training:
            self.traces_steps = kwargs.get("jit_compile") is True
            kwargs["jit_compile"] = False
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            **kwargs,
        )

    def _hindrance(self, loss: Any, metrics: Any, loss_weights: Any) -> str | None:
        """The setting or override that turns fusion off; None if there is none."""
        if self.is_int8:
            return "int8"
        if self.compute_dtype == "float16":
            # Gradients underflow before a loss scale could save them.
            return "float16"
        if metrics:
            return f"the metrics {metrics}"
        if loss_weights is not None:
            return "loss_weights"
        methods = [(self, name) for name in _BETWEEN]
        if _is_ours(loss, "fused"):
            methods += [(loss, "call"), (loss, "__call__")]
        for owner, name in methods:
            if not _is_ours(owner, name):
                method = f"{type(owner).__name__}.{name}"
                warnings.warn(
                    f"{method} is overridden, so the loss is not fused with the "
                    "output matrix: the logits of a whole batch are held in memory",
                    stacklevel=3,
                )
                return method
        return None

    def compile_from_config(self, config: Any) -> None:
        self.compile(**keras.saving.deserialize_keras_object(config))
        if self.optimizer is not None and self.built:
            self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self,
        x: Any = None,
        y: Any = None,
        y_pred: Any = None,
        sample_weight: Any = None,
        training: bool = True,
    ) -> Any:
        if self._step and isinstance(self.loss, LabelSmoothedCrossEntropy):
            sample_weight = self._loss_weights(y, sample_weight)
        if not self._fusing:
            return super().compute_loss(x, y, y_pred, sample_weight, training)
        taught = {}
        if training and self.loss.distillation:
            taught = {"teacher": self._taught(x)}
        loss, statistics = self.loss.fused(
            y_pred,
            self.output_embedding.matrix("embeddings"),
            self.output_embedding.bias,
            y,
            sample_weight,
            training=training,
            **taught,
        )
        for metric in self._token_metrics:
            metric.update_statistics(statistics)
        for added in self.losses:  # by `add_loss` and regularizers
            loss = loss + self._aggregate_additional_loss(added)
        return loss

    def _taught(self, inputs: Any) -> tuple[Any, Any, Any]:
        """Hidden states, matrix and bias of the teacher."""
        if self._teacher is None:
            raise InputError(
                f"the loss has distillation {self.loss.distillation}, but the model "
                f"has no teacher; set model.teacher, or distillation to 0"
            )
        if getattr(self, "packs_rows", False) and not self._teacher.packs_rows:
            raise InputError(
                "the batches are packed, but the teacher would read each row as one "
                "sentence; set model.teacher.packs_rows = True"
            )
        embedding = self._teacher.output_embedding
        hidden = self._teacher.hidden_states(inputs, training=False)
        return hidden, embedding.matrix("embeddings"), embedding.bias

    def compute_metrics(
        self, x: Any, y: Any, y_pred: Any, sample_weight: Any = None
    ) -> dict[str, Any]:
        if self._fusing:  # `compute_loss` has updated them
            metrics = self._compile_metrics
            if metrics is not None and not metrics.built:
                metrics.build(y, y_pred)
            return self.get_metrics_result()
        return super().compute_metrics(x, y, y_pred, sample_weight)

    def get_metrics_result(self) -> dict[str, Any]:
        results = super().get_metrics_result()
        if self._step and not self._step.training:
            for metric in self._gradient_norms:
                results.pop(metric.name, None)
        return results

    def note_gradients(self, gradients: Sequence[Tensor]) -> None:
        """Hook for the gradient of each training step, before it is applied."""
        if self._gradient_norms:
            norm = global_norm(gradients) / self.optimizer.scale_loss(1.0)
            for metric in self._gradient_norms:
                metric.update_norm(norm)

    def train_step(self, *arguments: Any) -> Any:
        with self._running(arguments[-1], training=True):
            return backends.train_step(self, super().train_step, *arguments)

    def test_step(self, *arguments: Any) -> Any:
        with self._running(arguments[-1], training=False):
            return backends.test_step(self, super().test_step, *arguments)

    def _maybe_symbolic_build(
        self, iterator: Any = None, data_batch: Any = None
    ) -> None:
        default = super()._maybe_symbolic_build
        backends.symbolic_build(default, self, iterator, data_batch)

    @contextlib.contextmanager
    def _running(self, data: Any, training: bool) -> Iterator[None]:
        """A step on a batch (x, y, weights)."""
        inputs, labels, _ = keras.utils.unpack_x_y_sample_weight(data)
        parts = self.micro_batches if training else 1
        if parts > 1:
            self._check_parts(tree.flatten(inputs)[0].shape[0])
        num_tokens = None
        if isinstance(self.loss, LabelSmoothedCrossEntropy):
            mask = token_mask(labels, self.loss.pad_id)
            num_tokens = backends.sum_over_replicas(ops.sum(mask))
        num_shares = parts * backends.num_separate_losses()
        token = _running_step.set(_Step(self, training, num_shares, num_tokens))
        try:
            yield
        finally:
            _running_step.reset(token)

    @property
    def step_tokens(self) -> Any:
        """The target tokens of the whole batch of the running step, scalar, or None."""
        return self._step.num_tokens

    @contextlib.contextmanager
    def counting(self, num_tokens: Any) -> Iterator[None]:
        """Context in which `step_tokens` is another tensor: that of a traced step."""
        token = _running_step.set(self._step._replace(num_tokens=num_tokens))
        try:
            yield
        finally:
            _running_step.reset(token)

    def _check_parts(self, num_rows: int) -> None:
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

    def _loss_weights(self, labels: Any, weights: Tensor) -> Tensor:
        """Weights that make the mean loss of all shares the loss of the batch."""
        step = self._step
        if weights is None:
            weights = default_weights(labels, self.loss.pad_id, step.num_tokens)
        return weights if step.num_shares == 1 else weights * step.num_shares


def _needing_fusion(loss: LabelSmoothedCrossEntropy) -> str | None:
    """The setting of a loss that is computed in fused steps alone."""
    for name in ("r_drop", "simcut", "distillation"):
        if getattr(loss, name):
            return name
    return None


def _is_ours(owner: Any, method: str) -> bool:
    """Whether a method is this package's, not overridden by a subclass."""
    return getattr(type(owner), method).__module__.startswith(_PACKAGE)
