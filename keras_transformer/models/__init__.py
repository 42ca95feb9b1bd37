"""Models that translate: config -> `keras.Model`, `encode`, `start`, `decode_step`."""

from keras_transformer.models.convolutional import ConvolutionalModel
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.recurrent import RecurrentModel
from keras_transformer.models.transformer import Transformer

#: By the kind of their config, as runs and model folders name it.
KINDS = {
    model.config_class.kind: model
    for model in (Transformer, RecurrentModel, ConvolutionalModel)
}

__all__ = ["KINDS", "ConvolutionalModel", "Ensemble", "RecurrentModel", "Transformer"]
