"""The sections of a run config about learning, searching and scoring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import Literal
from typing import TypeAlias

import pydantic

from keras_transformer.evaluation import check_tokenization
from keras_transformer.learned_metrics import check_path
from keras_transformer.training.config.data_section import File
from keras_transformer.training.config.section import Count
from keras_transformer.training.config.section import Section

#: Kind -> the backend that has it.
DISTRIBUTIONS: dict[str, str] = {
    "mirrored": "tensorflow",
    "multi_worker": "tensorflow",
    "data_parallel": "jax",
    "model_parallel": "jax",
    "torchrun": "torch",
}

#: Names of distributions, and `"none"`.
DistributionName: TypeAlias = Literal[
    "none", "mirrored", "multi_worker", "data_parallel", "model_parallel", "torchrun"
]
_BEST_METRICS = ("bleu", "chrf", "loss")
Part: TypeAlias = Literal["embeddings", "encoder", "decoder"]
Kernel: TypeAlias = Literal[
    "query", "key", "value", "output", "inner", "gate", "outer", "input", "forget"
]

#: Settings and their defaults of each optimizer; None stands for no such thing.
_OPTIMIZERS: dict[str, dict[str, float | None]] = {
    "adam": {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9},
    "adamw": {"beta_1": 0.9, "beta_2": 0.98, "epsilon": 1e-9, "weight_decay": 0.01},
    "adafactor": {"epsilon": 1e-30, "weight_decay": None},
}
#: The peak of the learning rate where the paper's, of Adam, says nothing.
ADAFACTOR_RATE = 0.01


def _tokenization(name: str) -> str:
    check_tokenization(name)
    return name


def _factory(value: str) -> str:
    module, colon, name = value.partition(":")
    parts = [*module.split("."), name]
    if not colon or not all(part.isidentifier() for part in parts):
        raise ValueError(
            f"expected module:factory, such as my_code:make, got {value!r}"
        )
    return value


def _best_metric(value: str) -> str:
    if value in _BEST_METRICS:
        return value
    try:
        return check_path(value)
    except ValueError:
        raise ValueError(
            f"expected one of {', '.join(_BEST_METRICS)}, or a metric that "
            f"evaluation.metrics names, as module:function, got {value!r}"
        ) from None


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class OptimizerSection(Section):
    """Optimizer: how gradients change the weights."""

    name: Literal["adam", "adamw", "adafactor"] = "adam"
    """Optimizer: `"adam"` (the paper's), `"adamw"` (Adam with decoupled weight decay;
    Loshchilov and Hutter, 2019) or `"adafactor"` (half the memory of Adam, steps
    relative to the size of the weights; Shazeer and Stern, 2018)."""
    beta_1: Annotated[float, pydantic.Field(ge=0.0, lt=1.0)] | None = None
    """Adam's β1: the share of the mean of gradients that stays at each step, of adam
    and adamw; 0.9 if left out."""
    beta_2: Annotated[float, pydantic.Field(ge=0.0, lt=1.0)] | None = None
    """Adam's β2: the share of the mean of squared gradients that stays at each step, of
    adam and adamw; 0.98 if left out. Adafactor's grows with the step k: 1 - k^-0.8."""
    epsilon: pydantic.PositiveFloat | None = None
    """Epsilon ε, which keeps divisors from 0: added to the root of the mean of squared
    gradients, 1e-9 if left out; by adafactor to squared gradients, 1e-30."""
    weight_decay: pydantic.NonNegativeFloat | None = None
    """Weight decay, decoupled: the share of the weights that goes at each step, times
    the learning rate, of adamw (0.01 if left out) and adafactor (none if left out).
    Biases and normalizations are left alone."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        name = given.get("name", cls.model_fields["name"].default)
        settings = _OPTIMIZERS.get(name, {}) if isinstance(name, str) else {}
        return {**settings, **given}

    @pydantic.model_validator(mode="after")
    def _check(self) -> OptimizerSection:
        for key in self.model_dump(exclude={"name"}, exclude_none=True):
            if key not in _OPTIMIZERS[self.name]:
                others = [name for name, keys in _OPTIMIZERS.items() if key in keys]
                raise ValueError(
                    f"{key} is no setting of {self.name}; remove it, or set "
                    f"name to {' or '.join(others)}"
                )
        return self


class LoraSection(Section):
    """LoRA: small adapters learn in place of the weights, which stay as they are.

    Reference: Hu et al., 2021, https://arxiv.org/abs/2106.09685.
    """

    rank: Count = 8
    """LoRA rank R: the adapter of a matrix (D, F) is a product (D, R) times (R, F)."""
    alpha: pydantic.PositiveFloat | None = None
    """LoRA alpha: adapters are scaled by alpha / R; R if left out."""
    kernels: (
        Annotated[tuple[Kernel, ...], pydantic.BeforeValidator(_as_tuple)] | None
    ) = None
    """Projections that get adapters: `"query"`, `"key"`, `"value"` and `"output"` of
    attentions, `"inner"`, `"gate"` and `"outer"` of feed-forward layers, `"input"` and
    `"forget"` of an SSRU; all that the model has if left out."""

    @property
    def scale(self) -> float:
        """The factor of the adapters."""
        return 1.0 if self.alpha is None else self.alpha / self.rank


class SimCutSection(Section):
    """SimCut: each sentence is passed a second time, with some embeddings set to zero.

    The second output distribution is pulled towards the first. Steps take twice as
    long.

    Reference: Gao et al., 2022, https://arxiv.org/abs/2206.02368.
    """

    weight: Annotated[float, pydantic.Field(gt=0.0, allow_inf_nan=False)] = 3.0
    """Weight α of the divergence, KL(first, second), beside the cross-entropy."""
    probability: Annotated[float, pydantic.Field(gt=0.0, lt=1.0)] = 0.05
    """Cutoff probability of each token of source and target, but start and end."""


class DistillationSection(Section):
    """Word-level distillation: the model learns the distributions of a teacher, too.

    The loss of a token is 1 - weight times its cross-entropy, plus weight times τ^2
    KL(teacher, model). Each step passes the teacher forward once.

    Reference: Kim and Rush, 2016, https://arxiv.org/abs/1606.07947, section 3.1; Hinton
    et al., 2015, https://arxiv.org/abs/1503.02531, section 2.
    """

    teacher: File
    """Teacher: a model folder with the same tokenizer, which stays as it is. Its digest
    is kept in the run folder; the model folders of the run have nothing of it."""
    weight: Annotated[float, pydantic.Field(gt=0.0, le=1.0)] = 0.5
    """Weight of the divergence, of which the cross-entropy has the rest."""
    temperature: Annotated[float, pydantic.Field(gt=0.0, allow_inf_nan=False)] = 1.0
    """Temperature τ of both distributions; above 1 the unlikely words count more."""


class TrainingSection(Section):
    """Training: how the weights are learned."""

    steps: Count = 100_000
    """Training steps: updates of the weights."""
    warmup_steps: Count = 4000
    """Warm-up steps, in which the learning rate rises."""
    learning_rate: pydantic.PositiveFloat | None = None
    """Peak of the learning rate schedule; None for the paper's, D^-0.5 *
    warmup_steps^-0.5, or for adafactor's, 0.01."""
    schedule: Literal["inverse_square_root", "cosine", "linear", "constant"] = (
        "inverse_square_root"
    )
    """Learning rate schedule after the warm-up: `"inverse_square_root"` (the paper's),
    `"cosine"` (half a cosine to 0 at `steps`), `"linear"` (a line to 0 after `steps`)
    or `"constant"`."""
    optimizer: OptimizerSection = OptimizerSection()
    """Optimizer and its settings."""
    label_smoothing: Annotated[float, pydantic.Field(ge=0.0, lt=1.0)] = 0.1
    """Label smoothing ε: the share of the target spread over the whole vocabulary."""
    r_drop: Annotated[float, pydantic.Field(ge=0.0, allow_inf_nan=False)] = 0.0
    """R-Drop's α: each sentence is passed twice with different dropout masks, and the
    two output distributions are pulled towards each other. Its paper translates with 5;
    steps take twice as long. 0 for none."""
    simcut: SimCutSection | None = None
    """SimCut, which needs dropout; none if left out, and not together with `r_drop`."""
    loss: Annotated[str, pydantic.AfterValidator(_factory)] | None = None
    """Loss of your own, as `module:factory`: a function in a module that Python finds,
    in the working directory, too. It takes the run's config and returns a loss of a
    class derived from `LabelSmoothedCrossEntropy`; None for that class itself."""
    distillation: DistillationSection | None = None
    """Word-level distillation from a teacher; none if left out, and not together with
    `r_drop` or `simcut`."""
    clip_norm: pydantic.PositiveFloat | None = None
    """Gradient clipping: the most that the norm of the whole gradient may be; None for
    any."""
    micro_batches: Count = 1
    """Gradient accumulation: parts of a batch, one after the other; memory is that of
    one part, the result that of the whole, dropout included."""
    remat: bool = False
    """Rematerialization (activation checkpointing): the backward pass computes each
    block of a Transformer again, for the memory of one block instead of all; the result
    is the same."""
    freeze: Annotated[tuple[Part, ...], pydantic.BeforeValidator(_as_tuple)] = ()
    """Frozen parts of the model, which do not learn."""
    lora: LoraSection | None = None
    """LoRA, for fine-tuning with little memory: adapters of the projections learn, and
    the weights of `model.folder` stay as they are; None for all weights."""
    validate_every: Count = 1000
    """Validation interval in steps."""
    checkpoint_every: Count = 1000
    """Checkpoint interval in steps."""
    log_every: Count | None = None
    """Logging interval: steps between lines of `logs/metrics.jsonl` and points in
    TensorBoard, besides those of each validation and checkpoint; None for no others."""
    callbacks: Annotated[
        tuple[Annotated[str, pydantic.AfterValidator(_factory)], ...],
        pydantic.BeforeValidator(_as_tuple),
    ] = ()
    """Callbacks of your own, each as `module:factory`: a function in a module that
    Python finds, in the working directory, too. It takes the run's config and returns a
    callback of Keras, or a list of them."""
    keep_checkpoints: Count = 10
    """Checkpoints that stay on disk: so many, the latest."""
    keep_best: pydantic.NonNegativeInt = 0
    """Best checkpoints in validation that stay besides."""
    best_metric: Annotated[
        str,
        pydantic.AfterValidator(_best_metric),
        pydantic.WithJsonSchema(
            {"anyOf": [{"enum": [*_BEST_METRICS]}, {"type": "string", "pattern": ":"}]}
        ),
    ] = "bleu"
    """Validation metric that says what is best: the highest `"bleu"` or `"chrf"` of
    greedy search, the lowest `"loss"`, the negative log-likelihood of the validation
    text, without label smoothing, or the highest of one of `evaluation.metrics`."""
    patience: Count | None = None
    """Early stopping: validations without a better one after which training ends, those
    of the warm-up not counted; None for all `steps`."""
    average_last: Count | None = None
    """Checkpoint averaging: the last so many, whose mean is the final model; if left
    out those of the last tenth of `steps`, but not more than 5: the mean of weights
    that still learn is a bad model."""
    average_best: Count | None = None
    """Checkpoint averaging of the best in validation instead."""
    ema: Annotated[float, pydantic.Field(gt=0.0, lt=1.0)] | None = None
    """Exponential moving average (EMA) of the weights instead: how much of it stays at
    each step, such as 0.999. It is then validated and kept, too."""
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    """Floating point precision: `"float32"`, or mixed precision: `"mixed_bfloat16"`."""
    jit_compile: Literal["auto"] | bool = "auto"
    """Compilation of the training step, once for each shape of batch: true, false, or
    `"auto"`: always on JAX, on TensorFlow with a GPU. XLA compiles it, on PyTorch a
    trace, which `torch.compile` then compiles on a GPU. On a CPU TensorFlow takes
    ten seconds a shape for it, which a long run of a small model wins back; a large one
    does not."""
    distribution: DistributionName = "none"
    """Distributed training: how several devices share a batch: `"none"`; on TensorFlow
    `"mirrored"` or `"multi_worker"`, on JAX `"data_parallel"` or `"model_parallel"`, on
    PyTorch `"torchrun"`."""
    devices: Literal["all"] | Count = "all"
    """Devices: `"all"` or a number; without GPUs that many logical CPUs."""
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 1
    """Random seed of initial weights, dropout and the order of the batches."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        ways = [k for k in ("average_last", "average_best", "ema") if k in given]
        if len(ways) > 1:
            raise ValueError(
                f"{' and '.join(ways)} are different final models; give one of them"
            )
        if not ways:
            given["average_last"] = cls._few_late(given)
        return given

    @classmethod
    def _few_late(cls, given: Mapping[str, Any]) -> int:
        """Checkpoints in the last tenth of the steps: 1 to 5."""
        names = ("steps", "checkpoint_every")
        values = [given.get(name, cls.model_fields[name].default) for name in names]
        if not all(isinstance(value, int) and value > 0 for value in values):
            return 1  # of a section that is refused
        steps, interval = values
        return min(max(steps // 10 // interval, 1), 5)

    @property
    def intervals(self) -> tuple[int, ...]:
        """Steps between validations, between checkpoints, between lines of the log."""
        intervals = self.validate_every, self.checkpoint_every
        return (*intervals, self.log_every) if self.log_every else intervals

    @pydantic.model_validator(mode="after")
    def _check(self) -> TrainingSection:
        if self.r_drop and self.simcut:
            raise ValueError("give r_drop or simcut: both pass each sentence twice")
        if self.distillation and (self.r_drop or self.simcut):
            raise ValueError(
                "distillation does not go with r_drop or simcut, which pass each "
                "sentence twice; remove one of them"
            )
        best = max(self.keep_best, self.average_best or 0)
        if best and self.validate_every % self.checkpoint_every:
            raise ValueError(
                f"the best checkpoints are kept, but validate_every "
                f"{self.validate_every} is not a multiple of checkpoint_every "
                f"{self.checkpoint_every}; make it one"
            )
        if self.distribution == "none" and self.devices not in ("all", 1):
            raise ValueError(
                f"devices {self.devices} need a distribution; set it to one of "
                f"{', '.join(DISTRIBUTIONS)}"
            )
        backend = DISTRIBUTIONS.get(self.distribution)
        if self.jit_compile is True and backend == "tensorflow":
            raise ValueError(
                f"jit_compile does not go with distribution {self.distribution}, in "
                f"which TensorFlow compiles nothing; leave it out"
            )
        return self


class EvaluationSection(Section):
    """Evaluation: how translations of the validation and test texts are scored."""

    tokenize: Annotated[str, pydantic.AfterValidator(_tokenization)] = "13a"
    """Tokenization of BLEU: how it splits text into words, as sacreBLEU names it;
    `"none"` for text that is tokenized already; or `"moses-de"`, Moses' way of a
    language."""
    lowercase: bool = False
    """Case-insensitive scores: BLEU and chrF ignore case."""
    metrics: Annotated[
        tuple[Annotated[str, pydantic.AfterValidator(check_path)], ...],
        pydantic.BeforeValidator(_as_tuple),
    ] = ()
    """Metrics of your own, such as learned ones: functions as `"module:function"`, see
    docs/metrics.md; they score validation and test besides."""

    @property
    def options(self) -> dict[str, Any]:
        """The options of `evaluation.evaluate`."""
        return self.model_dump(exclude={"metrics"})
