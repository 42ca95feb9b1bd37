"""Kinds of models that files name: those of this package, and subclasses.

A subclass in a module is known by its name, `module.Class`, and comes back as itself
once the module is imported.
"""

from __future__ import annotations

import math
from typing import Any

from keras_transformer import config
from keras_transformer.config.own_kinds import own_class
from keras_transformer.errors import InputError
from keras_transformer.layers import initial_values
from keras_transformer.models.convolutional import ConvolutionalModel
from keras_transformer.models.recurrent import RecurrentModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.weights import named_weights
from keras_transformer.models.weights import plain_weights
from keras_transformer.tensors import Shape

_PACKAGE = __name__.partition(".")[0] + "."
_MODELS: dict[type[config.TranslationConfig], type[TranslationModel]] = {
    model.config_class: model
    for model in (Transformer, RecurrentModel, ConvolutionalModel)
}
#: The model classes of the kinds in `config.KINDS`, by name.
KINDS = {kind: _MODELS[config_class] for kind, config_class in config.KINDS.items()}


#: What a model folder holds of a model besides its class and its weights.
_KEPT = {"config", "dtype", "name", "trainable"}


def model_class(kind: str) -> type[TranslationModel]:
    """The model class of a kind of this package, or the class `module.Class`.

    Raises:
        InputError: where there is none, or its module was not imported before.
    """
    config.config_class(kind)
    found = KINDS.get(kind) or own_class(kind)
    if not issubclass(found, TranslationModel):
        raise InputError(f"{kind} is no subclass of a model of keras_transformer")
    return found


def kind_of(model: Any) -> str:
    """The kind of a model, for files: of a subclass its name, `module.Class`."""
    model_class = type(model)
    if not is_own(model):
        return model.config.kind
    return f"{model_class.__module__}.{model_class.__qualname__}"


def is_own(model: Any) -> bool:
    """Whether a model is of a class from outside of this package."""
    return not type(model).__module__.startswith(_PACKAGE)


def num_weights(model: Any) -> int:
    """The number of weights of a model, adapters (LoRA) left out."""
    if not is_own(model):
        return model.config.num_weights
    return sum(math.prod(weight.shape) for weight in plain_weights(model).values())


def refuse_unrestorable(model: Any, what: str) -> None:
    """Refuses a subclass that would not come back from its name, config and weights.

    Args:
        model: a model of this package, or of a subclass.
        what: the beginning of the message, such as "a model folder holds".

    Raises:
        InputError: naming what would be lost.
    """
    if not is_own(model):
        return
    name, kind = type(model).__name__, kind_of(model)
    instead = "or save the model with model.save (.keras)"
    if type(model).__module__ == "__main__" or own_class(kind) is not type(model):
        raise InputError(
            f"{what} the name of a model's class, and {name} cannot be imported by "
            f"the name {kind}; define it at the top of a module of its own, {instead}"
        )
    if lost := sorted(model.get_config().keys() - _KEPT):
        raise InputError(
            f"{what} a class and its config, and {name} also takes {', '.join(lost)}; "
            f"make it a field of its config_class, {instead}"
        )
    with initial_values.left_out():
        names = named_weights(type(model)(model.config)).keys()
    if unnamed := sorted(plain_weights(model).keys() - names):
        raise InputError(
            f"{what} weights by name, and {unnamed[0]!r} of {name} has another name in "
            f"each model; give the weight (add_weight(name=...)) and its layer names, "
            f"{instead}"
        )


def refuse_int8(model: Any, what: str) -> None:
    """Refuses an int8 model.

    Args:
        model: of this package; an ensemble has none.
        what: the beginning of the message, such as "a model folder holds".

    Raises:
        InputError: naming what to do instead.
    """
    if getattr(model, "is_int8", False):
        raise InputError(
            f"{what} float models alone, not int8; save this one with model.save "
            f"(.keras), or give the float model"
        )


def refuse_subclass(model: Any, what: str) -> None:
    """Refuses a subclass, whose own computation the format does not have.

    Args:
        model: a model of this package, or of a subclass.
        what: the beginning of the message, such as "the export takes".

    Raises:
        InputError: with both classes, for a subclass.
    """
    kind = KINDS[model.config.kind]
    if type(model) is not kind:
        raise InputError(
            f"{what} only a plain {kind.__name__}, and the subclass "
            f"{type(model).__name__} would be lost; give its weights to a "
            f"{kind.__name__}"
        )


def weight_shapes(config: config.TranslationConfig) -> dict[str, Shape]:
    """`{path: shape}` of the weights of a model of a config, without their memory."""
    with initial_values.left_out():
        model = _MODELS[type(config)](config)
    return {path: tuple(w.shape) for path, w in named_weights(model).items()}
