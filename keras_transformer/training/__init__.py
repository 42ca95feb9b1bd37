"""Training: metrics, schedule and optimizer for plain `fit`, and whole runs."""

from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import load_config
from keras_transformer.training.metrics import NegativeLogLikelihood
from keras_transformer.training.metrics import Perplexity
from keras_transformer.training.metrics import TokenAccuracy
from keras_transformer.training.run import average
from keras_transformer.training.run import train
from keras_transformer.training.schedules import InverseSquareRoot
from keras_transformer.training.schedules import adam
from keras_transformer.training.schedules import paper_optimizer

__all__ = [
    "InverseSquareRoot",
    "LabelSmoothedCrossEntropy",
    "NegativeLogLikelihood",
    "Perplexity",
    "RunConfig",
    "TokenAccuracy",
    "adam",
    "average",
    "load_config",
    "paper_optimizer",
    "train",
]
