"""Models that translate: config -> `keras.Model`, `encode`, `start`, `decode_step`."""

from keras_transformer.models.ensemble import Ensemble
from keras_transformer.models.transformer import Transformer

__all__ = ["Ensemble", "Transformer"]
