"""Models that translate: config -> `keras.Model`, `encode`, `start`, `decode_step`."""

from keras_transformer.models.convolutional import ConvolutionalModel
from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.kinds import KINDS
from keras_transformer.models.recurrent import RecurrentModel
from keras_transformer.models.transformer import Transformer

__all__ = ["KINDS", "ConvolutionalModel", "Ensemble", "RecurrentModel", "Transformer"]
