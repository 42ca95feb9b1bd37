"""Kinds of models that files name, and the refusal of subclasses."""

from __future__ import annotations

from typing import Any

from keras_transformer import config
from keras_transformer.errors import InputError
from keras_transformer.layers import initial_values
from keras_transformer.models.convolutional import ConvolutionalModel
from keras_transformer.models.recurrent import RecurrentModel
from keras_transformer.models.transformer import Transformer
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.weights import named_weights
from keras_transformer.tensors import Shape

_MODELS: dict[type[config.TranslationConfig], type[TranslationModel]] = {
    model.config_class: model
    for model in (Transformer, RecurrentModel, ConvolutionalModel)
}
#: The model classes of the kinds in `config.KINDS`, by name.
KINDS = {kind: _MODELS[config_class] for kind, config_class in config.KINDS.items()}


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
    """Refuses a subclass, which a file of its kind would not restore.

    Args:
        model: a model of this package, or of a subclass.
        what: the beginning of the message, such as "a model folder holds".

    Raises:
        InputError: with both classes, for a subclass.
    """
    model_class, kind = type(model), KINDS[model.config.kind]
    if model_class is not kind:
        raise InputError(
            f"{what} only a plain {kind.__name__}, and the subclass "
            f"{model_class.__name__} would be lost; save the model with model.save "
            f"(.keras), or give its weights to a {kind.__name__}"
        )


def weight_shapes(config: config.TranslationConfig) -> dict[str, Shape]:
    """`{path: shape}` of the weights of a model of a config, without their memory."""
    with initial_values.left_out():
        model = _MODELS[type(config)](config)
    return {path: tuple(w.shape) for path, w in named_weights(model).items()}
