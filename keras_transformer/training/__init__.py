"""Training: metrics, schedule and optimizer for plain `fit`, and whole runs."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from keras_transformer.losses import (
        LabelSmoothedCrossEntropy as LabelSmoothedCrossEntropy,
    )
    from keras_transformer.metrics import GradientNorm as GradientNorm
    from keras_transformer.metrics import NegativeLogLikelihood as NegativeLogLikelihood
    from keras_transformer.metrics import Perplexity as Perplexity
    from keras_transformer.metrics import TokenAccuracy as TokenAccuracy
    from keras_transformer.training.averaging import average as average
    from keras_transformer.training.callbacks import AverageWeights as AverageWeights
    from keras_transformer.training.callbacks import (
        TranslationScores as TranslationScores,
    )
    from keras_transformer.training.config import Corpus as Corpus
    from keras_transformer.training.config import DataSection as DataSection
    from keras_transformer.training.config import EvaluationSection as EvaluationSection
    from keras_transformer.training.config import FilterSection as FilterSection
    from keras_transformer.training.config import LoraSection as LoraSection
    from keras_transformer.training.config import OptimizerSection as OptimizerSection
    from keras_transformer.training.config import RunConfig as RunConfig
    from keras_transformer.training.config import TokenizerSection as TokenizerSection
    from keras_transformer.training.config import TrainingCorpus as TrainingCorpus
    from keras_transformer.training.config import TrainingSection as TrainingSection
    from keras_transformer.training.config import load_config as load_config
    from keras_transformer.training.distribution import WorkerLost as WorkerLost
    from keras_transformer.training.distribution import (
        open_distribution as open_distribution,
    )
    from keras_transformer.training.run import train as train
    from keras_transformer.training.schedules import (
        InverseSquareRoot as InverseSquareRoot,
    )
    from keras_transformer.training.schedules import LinearWarmup as LinearWarmup
    from keras_transformer.training.schedules import adam as adam
    from keras_transformer.training.schedules import paper_optimizer as paper_optimizer

# Loaded on first use: a config can be read, and refused, before Keras is loaded.
__getattr__, __dir__, __all__ = lazy_loader.attach(
    "keras_transformer",
    submod_attrs={
        "losses": ["LabelSmoothedCrossEntropy"],
        "metrics": [
            "GradientNorm",
            "NegativeLogLikelihood",
            "Perplexity",
            "TokenAccuracy",
        ],
        "training.averaging": ["average"],
        "training.callbacks": ["AverageWeights", "TranslationScores"],
        "training.config": [
            "Corpus",
            "DataSection",
            "EvaluationSection",
            "FilterSection",
            "LoraSection",
            "OptimizerSection",
            "RunConfig",
            "TokenizerSection",
            "TrainingCorpus",
            "TrainingSection",
            "load_config",
        ],
        "training.distribution": ["WorkerLost", "open_distribution"],
        "training.run": ["train"],
        "training.schedules": [
            "InverseSquareRoot",
            "LinearWarmup",
            "adam",
            "paper_optimizer",
        ],
    },
)
