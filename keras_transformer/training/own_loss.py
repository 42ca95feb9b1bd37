"""Loss of a run: that of the `training` section, or one of the user."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from typing import TypeAlias

from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training.config import RunConfig
from keras_transformer.user_modules import named_function

#: A function that makes the loss of a run.
LossFactory: TypeAlias = Callable[[RunConfig], LabelSmoothedCrossEntropy]

_KEY = "training.loss"


def cross_entropy(config: RunConfig) -> LabelSmoothedCrossEntropy:
    """The loss of this package with the settings of a run."""
    training = config.training
    options: dict[str, Any] = {}
    if (simcut := training.simcut) is not None:
        options["simcut"] = simcut.weight
        options["simcut_probability"] = simcut.probability
    if (distillation := training.distillation) is not None:
        options["distillation"] = distillation.weight
        options["temperature"] = distillation.temperature
    return LabelSmoothedCrossEntropy(
        training.label_smoothing, r_drop=training.r_drop, **options
    )


def loss_factory(config: RunConfig) -> LossFactory:
    """The function that `training.loss` names, whose module is imported.

    Without one it is `cross_entropy`.

    Raises:
        InputError: where there is no such module or function; from the function, where
            it returns no loss that a run can sum over tokens.
    """
    path = config.training.loss
    if path is None:
        return cross_entropy
    factory = named_function(path, _KEY, "a loss")

    def make(config: RunConfig) -> LabelSmoothedCrossEntropy:
        loss = factory(config)
        if not isinstance(loss, LabelSmoothedCrossEntropy):
            raise InputError(
                f"{_KEY}: {path} returned {type(loss).__name__}, which is not derived "
                f"from keras_transformer.losses.LabelSmoothedCrossEntropy; derive it, "
                f"and override `call`"
            )
        _refuse_unused(path, config, loss)
        return loss

    return make


def _refuse_unused(
    path: str, config: RunConfig, loss: LabelSmoothedCrossEntropy
) -> None:
    """Refuses keys of the config that the loss of the user has not taken over."""
    usual = cross_entropy(config)
    for key in ("r_drop", "simcut", "distillation"):
        if getattr(usual, key) and not getattr(loss, key):
            raise InputError(
                f"{_KEY}: {path} returned a loss without {key}, which training.{key} "
                f"asks for; pass {key} to it, or remove training.{key}"
            )
