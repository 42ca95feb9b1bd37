"""Configs of models and searches, as validated and frozen objects; no Keras.

Letters, here and in every file: B batch, T target positions, S source positions,
D hidden_dim (the paper's d_model), F intermediate_dim (d_ff), H num_heads (h),
K head_dim (d_k), N layers, V vocabulary size, W beam width, L length of a cache.
"""

from typing import Any

from keras_transformer.config.convolutional import ConvolutionalConfig
from keras_transformer.config.own_kinds import own_class
from keras_transformer.config.own_kinds import unknown_kind
from keras_transformer.config.recurrent import RecurrentConfig
from keras_transformer.config.transformer import PRESETS
from keras_transformer.config.transformer import TransformerConfig
from keras_transformer.config.translation import UNKNOWN_ID
from keras_transformer.config.translation import TranslationConfig
from keras_transformer.errors import InputError

#: By the name that `model.kind` of a run and `kind` of a model folder give.
KINDS: dict[str, type[TranslationConfig]] = {
    config.kind: config
    for config in (TransformerConfig, RecurrentConfig, ConvolutionalConfig)
}


def config_class(kind: Any) -> type[TranslationConfig]:
    """The config class of a kind of this package, or of a class `module.Class`.

    Raises:
        InputError: where there is none, or its module was not imported before.
    """
    if isinstance(kind, str) and kind in KINDS:
        return KINDS[kind]
    if (found := own_class(kind)) is None:
        raise InputError(unknown_kind(kind, ", ".join(KINDS)))
    return found.config_class


__all__ = [
    "KINDS",
    "PRESETS",
    "UNKNOWN_ID",
    "ConvolutionalConfig",
    "RecurrentConfig",
    "TransformerConfig",
    "TranslationConfig",
    "config_class",
]
