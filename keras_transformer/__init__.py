"""The Transformer of "Attention Is All You Need" for Keras 3.

Importing this package costs nothing and runs nothing: a public name is loaded when
it is first used, and only then Keras and its backend (PEP 562).
"""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer import data as data
    from keras_transformer import decoding as decoding
    from keras_transformer import evaluation as evaluation
    from keras_transformer import export as export
    from keras_transformer import importing as importing
    from keras_transformer import layers as layers
    from keras_transformer import losses as losses
    from keras_transformer import models as models
    from keras_transformer import training as training
    from keras_transformer import visualization as visualization
    from keras_transformer.batch_translator import BatchTranslator as BatchTranslator
    from keras_transformer.config import ConvolutionalConfig as ConvolutionalConfig
    from keras_transformer.config import RecurrentConfig as RecurrentConfig
    from keras_transformer.config import TransformerConfig as TransformerConfig
    from keras_transformer.engines.choice import load_translator as load_translator
    from keras_transformer.engines.ctranslate2_translator import (
        CTranslate2Translator as CTranslate2Translator,
    )
    from keras_transformer.models.convolutional import (
        ConvolutionalModel as ConvolutionalModel,
    )
    from keras_transformer.models.recurrent import RecurrentModel as RecurrentModel
    from keras_transformer.models.transformer import Transformer as Transformer
    from keras_transformer.translator import Translator as Translator

__version__ = "0.1.0"

__getattr__, _, __all__ = lazy_loader.attach(
    __name__,
    submodules=[
        "data",
        "decoding",
        "evaluation",
        "export",
        "importing",
        "layers",
        "losses",
        "models",
        "training",
        "visualization",
    ],
    submod_attrs={
        "batch_translator": ["BatchTranslator"],
        "config": ["ConvolutionalConfig", "RecurrentConfig", "TransformerConfig"],
        "engines.choice": ["load_translator"],
        "engines.ctranslate2_translator": ["CTranslate2Translator"],
        "models.convolutional": ["ConvolutionalModel"],
        "models.recurrent": ["RecurrentModel"],
        "models.transformer": ["Transformer"],
        "translator": ["Translator"],
    },
)
__all__ += ["__version__"]


def __dir__() -> list[str]:
    return __all__
