"""Losses: cross-entropy with label smoothing, on logits or fused with the output layer.

Keras files name `keras_transformer.losses` as the module of `LabelSmoothedCrossEntropy`
and look the class up in it, so it is imported here eagerly.
"""

from keras_transformer.losses.cross_entropy import TokenStatistics
from keras_transformer.losses.cross_entropy import default_weights
from keras_transformer.losses.cross_entropy import token_losses
from keras_transformer.losses.label_smoothed_cross_entropy import (
    LabelSmoothedCrossEntropy,
)

__all__ = [
    "LabelSmoothedCrossEntropy",
    "TokenStatistics",
    "default_weights",
    "token_losses",
]
