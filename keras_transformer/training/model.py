"""From a run config to a compiled model: mixed precision, loss, optimizer, metrics."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import keras

from keras_transformer import model_folder
from keras_transformer.config import TranslationConfig
from keras_transformer.data.piece_table import common_special_ids
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.metrics import GradientNorm
from keras_transformer.metrics import NegativeLogLikelihood
from keras_transformer.metrics import TokenAccuracy
from keras_transformer.model_folder import load_weights
from keras_transformer.models.kinds import model_class
from keras_transformer.models.kinds import refuse_unrestorable
from keras_transformer.models.new_vocabulary import begin_from
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import TrainingSection
from keras_transformer.training.config.training_section import ADAFACTOR_RATE
from keras_transformer.training.config.training_section import LoraSection
from keras_transformer.training.corpora import load_tokenizers
from keras_transformer.training.moving_average import keep_weights
from keras_transformer.training.own_loss import LossFactory
from keras_transformer.training.own_loss import cross_entropy
from keras_transformer.training.schedules import InverseSquareRoot
from keras_transformer.training.schedules import LinearWarmup

_OPTIMIZERS = {
    "adam": keras.optimizers.Adam,
    "adamw": keras.optimizers.AdamW,
    "adafactor": keras.optimizers.Adafactor,
}


def compiled_model(
    config: RunConfig,
    tokenizers: Sequence[Tokenizer],
    make_loss: LossFactory = cross_entropy,
) -> TranslationModel:
    """The compiled model of a `RunConfig`, with fresh weights.

    Args:
        config: the config of the run.
        tokenizers: the tokenizers of source and target, which set the vocabulary sizes.
        make_loss: what makes the loss that it trains with.

    Raises:
        InputError: where all layers are frozen, or a teacher does not fit.
    """
    training = config.training
    model = new_model(config, tokenizers, training.precision)
    _freeze(model, training.freeze)
    if training.lora is not None:
        _adapt(model, training.lora)
    optimizer = make_optimizer(training, model)
    if training.distillation is not None:
        model.teacher = _teacher(config, training.distillation.teacher, tokenizers)
    model.compile(
        optimizer=keep_weights(optimizer),
        loss=make_loss(config),
        metrics=[NegativeLogLikelihood(), TokenAccuracy(), GradientNorm()],
        jit_compile=training.jit_compile,
    )
    model.micro_batches = training.micro_batches
    if training.remat:
        if not hasattr(model, "rematerializes"):
            raise InputError(
                f"training.remat is for model.kind transformer, and this run's is "
                f"{model.config.kind}; set training.remat to false"
            )
        model.rematerializes = True
    if config.data.packing is not None:
        _pack(model)
    optimizer.build(model.trainable_variables)
    return model


def _teacher(
    config: RunConfig, folder: Path, tokenizers: Sequence[Tokenizer]
) -> TranslationModel:
    """The model of a teacher's folder, which reads what the run's model reads."""
    contents = model_folder.read(folder, config.training.precision)
    own = [tokenizer.content for tokenizer in tokenizers]
    model: TranslationModel = contents.model
    if [contents.source_tokenizer.content, contents.target_tokenizer.content] != own:
        raise InputError(
            f"training.distillation.teacher {folder} has another tokenizer than the "
            f"run, so its distributions are of other pieces; give the run that "
            f"tokenizer (tokenizer.path), or let the teacher translate the text "
            f"(keras-transformer distill)"
        )
    if model.config.source_end != config.model["source_end"]:
        raise InputError(
            f"training.distillation.teacher {folder} has source_end "
            f"{model.config.source_end}, and the run's model has not; make "
            f"model.source_end equal"
        )
    rows = model.config.longest_sequence
    is_bound = getattr(model.config, "position", None) == "learned"
    if is_bound and config.data.max_length > rows:
        raise InputError(
            f"data.max_length {config.data.max_length} is more than the {rows} "
            f"positions of training.distillation.teacher {folder}; lower it"
        )
    if config.data.packing is not None:
        _pack(model)
    return model


def _pack(model: TranslationModel) -> None:
    if not hasattr(model, "packs_rows"):
        raise InputError(
            f"data.packing is for model.kind transformer, and this run's is "
            f"{model.config.kind}; set data.packing to null"
        )
    try:
        model.packs_rows = True
    except InputError as error:
        raise InputError(f"data.packing: {error}") from None


def begin_from_trained(
    model: TranslationModel,
    config: RunConfig,
    say: Callable[[str], None] = lambda text: None,
) -> None:
    """Assigns the weights of `model.folder` to a new run's model, if the config has it.

    Args:
        model: of the run, with fresh weights.
        config: the config of the run, whose folder has its tokenizers.
        say: a function that receives messages for people.

    Raises:
        InputError: where they do not fit.
    """
    folder = config.model.get("folder")
    if folder and config.model.get("new_vocabulary"):
        trained = model_folder.read(folder)
        old = trained.source_tokenizer, trained.target_tokenizer
        new = load_tokenizers(config.tokenizer, config.output)
        say(begin_from(model, trained.model, old, new))
    elif folder:
        load_weights(Path(folder), model)


def new_model(
    config: RunConfig, tokenizers: Sequence[Tokenizer], precision: str = "float32"
) -> TranslationModel:
    """The model of a `RunConfig` with fresh weights, not compiled.

    Raises:
        InputError: where it is of a subclass that no file would bring back.
    """
    sizes = [tokenizer.vocabulary_size for tokenizer in tokenizers]
    model_config = config.translation_config(*sizes, **common_special_ids(tokenizers))
    model = model_class(config.model["kind"])(model_config, dtype=precision)
    refuse_unrestorable(model, "a model folder, which a run ends with, holds")
    return model


def make_optimizer(training: TrainingSection, model: TranslationModel) -> Any:
    """The optimizer of the `training` section of a `RunConfig`, not built.

    Args:
        training: the section.
        model: the model to train; weight decay skips biases and normalizations.
    """
    options = training.optimizer.model_dump(exclude_none=True)
    make = _OPTIMIZERS[options.pop("name")]
    if make is keras.optimizers.Adafactor:
        options["epsilon_1"] = options.pop("epsilon")
    optimizer = make(
        schedule(training, model.config),
        **options,
        global_clipnorm=training.clip_norm,
        use_ema=training.ema is not None,
        ema_momentum=training.ema or 0.99,
    )
    variables = model.trainable_variables
    exempt = [variable for variable in variables if not _decays(variable)]
    optimizer.exclude_from_weight_decay(exempt)
    if len(exempt) == len(variables):
        optimizer.weight_decay = None
    return optimizer


def _decays(variable: Any) -> bool:
    """Whether weight decay applies: not to biases and normalizations."""
    return len(variable.shape) > 1 and "bias" not in variable.name


def schedule(training: TrainingSection, model_config: TranslationConfig) -> Any:
    """The learning rate schedule of the `training` section of a `RunConfig`."""
    hidden_dim, warmup = model_config.hidden_dim, training.warmup_steps
    curve, peak = InverseSquareRoot(hidden_dim, warmup), training.learning_rate
    if peak is None and training.optimizer.name == "adafactor":
        peak = ADAFACTOR_RATE
    if peak is not None:
        curve = InverseSquareRoot.with_peak(peak, hidden_dim, warmup)
    if training.schedule == "inverse_square_root":
        return curve
    peak = float(curve(warmup - 1))
    if training.schedule == "constant":
        return LinearWarmup(peak, warmup)
    if training.schedule == "linear":
        return LinearWarmup(peak, warmup, training.steps)
    return keras.optimizers.schedules.CosineDecay(
        0.0,
        decay_steps=max(training.steps - warmup, 1),
        warmup_target=peak,
        warmup_steps=warmup,
    )


def _adapt(model: TranslationModel, lora: LoraSection) -> None:
    """Gives what is not frozen adapters, which alone learn."""
    kernels = model.projection_kernels
    if lora.kernels is not None:
        kernels = [f"{name}_kernel" for name in lora.kernels]
    try:
        model.enable_lora(lora.rank, lora.alpha, kernels)
    except ValueError as error:
        raise InputError(
            f"training.lora: {error}; change its kernels, or freeze less"
        ) from None


def _freeze(model: TranslationModel, parts: Sequence[str]) -> None:
    for part in parts:
        for layer in model.layer_groups[part]:
            if layer is not None:
                layer.trainable = False
    if not model.trainable_variables:
        raise InputError(
            f"training.freeze {', '.join(parts)} leaves nothing to train; freeze "
            "fewer parts"
        )
