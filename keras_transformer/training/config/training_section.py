"""The sections of a run config about learning, searching and scoring."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.evaluation import check_tokenization
from keras_transformer.training.config.section import Count
from keras_transformer.training.config.section import Section

#: Kind -> the backend that has it.
DISTRIBUTIONS = {
    "mirrored": "tensorflow",
    "multi_worker": "tensorflow",
    "data_parallel": "jax",
    "model_parallel": "jax",
    "torchrun": "torch",
}

Part = Literal["embeddings", "encoder", "decoder"]


def _tokenization(name: str) -> str:
    check_tokenization(name)
    return name


def _as_tuple(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


class TrainingSection(Section):
    """How the weights are learned.

    Args:
        steps: updates of the weights.
        warmup_steps: steps in which the learning rate rises.
        learning_rate: the peak of the learning rate schedule; None for the paper's,
            D^-0.5 * warmup_steps^-0.5.
        schedule: how the rate falls: `"inverse_square_root"` (the paper's) or
            `"cosine"`, half a cosine to 0 at `steps`.
        label_smoothing: label smoothing ε: share of the target spread over the whole
            vocabulary.
        r_drop: α of R-Drop: each sentence is passed twice with different dropout
            masks, and the two output distributions are pulled towards each other. Its
            paper translates with 5; steps take twice as long. 0 for none.
        clip_norm: the most that the norm of the whole gradient may be; None for any.
        micro_batches: gradient accumulation: parts of a batch, one after the other;
            memory is that of one part, the result that of the whole, dropout included.
        freeze: parts of the model that do not learn.
        validate_every: steps between validations.
        checkpoint_every: steps between checkpoints.
        log_every: steps between lines of `logs/metrics.jsonl` and points in
            TensorBoard, besides those of each validation and checkpoint; None for no
            others.
        keep_checkpoints: how many, the latest, stay on disk.
        keep_best: how many, the best in validation, stay besides.
        best_metric: what is best: the highest `"bleu"` or `"chrf"` of greedy search,
            or the lowest `"loss"`, the negative log-likelihood of the validation
            text, without label smoothing.
        patience: validations without a better one after which training ends, those of
            the warm-up not counted; None for all `steps`.
        average_last: checkpoint averaging: the last so many, whose mean is the final
            model; by default those of the last tenth of `steps`, but not more than 5:
            the mean of weights that still learn is a bad model.
        average_best: instead, the mean of the best in validation.
        ema: instead, an exponential moving average of the weights: how much of it
            stays at each step, such as 0.999. It is then validated and kept, too.
        precision: `"float32"`, or mixed precision: `"mixed_bfloat16"`.
        jit_compile: whether XLA compiles the training step, once for each shape of
            batch: true, false, or `"auto"` as Keras chooses: always on JAX, on
            TensorFlow with a GPU. On processors TensorFlow takes ten seconds a shape
            for it, which a long run of a small model wins back; a large one does not.
            PyTorch has no XLA.
        distribution: how several devices share a batch: `"none"`; on TensorFlow
            `"mirrored"` or `"multi_worker"`, on JAX `"data_parallel"` or
            `"model_parallel"`, on PyTorch `"torchrun"`.
        devices: `"all"` or a number; without GPUs that many logical CPUs.
        seed: of initial weights, dropout and the order of the batches.
    """

    steps: Count = 100_000
    warmup_steps: Count = 4000
    learning_rate: pydantic.PositiveFloat | None = None
    schedule: Literal["inverse_square_root", "cosine"] = "inverse_square_root"
    label_smoothing: Annotated[float, pydantic.Field(ge=0.0, lt=1.0)] = 0.1
    r_drop: Annotated[float, pydantic.Field(ge=0.0, allow_inf_nan=False)] = 0.0
    clip_norm: pydantic.PositiveFloat | None = None
    micro_batches: Count = 1
    freeze: Annotated[tuple[Part, ...], pydantic.BeforeValidator(_as_tuple)] = ()
    validate_every: Count = 1000
    checkpoint_every: Count = 1000
    log_every: Count | None = None
    keep_checkpoints: Count = 10
    keep_best: pydantic.NonNegativeInt = 0
    best_metric: Literal["bleu", "chrf", "loss"] = "bleu"
    patience: Count | None = None
    average_last: Count | None = None
    average_best: Count | None = None
    ema: Annotated[float, pydantic.Field(gt=0.0, lt=1.0)] | None = None
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    jit_compile: Literal["auto"] | bool = "auto"
    distribution: Literal[("none", *DISTRIBUTIONS)] = "none"
    devices: Literal["all"] | Count = "all"
    seed: Annotated[int, pydantic.Field(ge=0, lt=2**32)] = 1

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
    """How translations of the validation and test texts are scored.

    Args:
        tokenize: how BLEU splits text into words, as sacreBLEU names it; `"none"` for
            text that is tokenized already; or `"moses-de"`, Moses' way of a language.
        lowercase: BLEU and chrF ignore case.
    """

    tokenize: Annotated[str, pydantic.AfterValidator(_tokenization)] = "13a"
    lowercase: bool = False
