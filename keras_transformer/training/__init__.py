"""Training: metrics, schedule and optimizer for plain `fit`, and whole runs."""

import importlib

_HOME = {
    "InverseSquareRoot": "training.schedules",
    "LabelSmoothedCrossEntropy": "losses",
    "NegativeLogLikelihood": "training.metrics",
    "Perplexity": "training.metrics",
    "RunConfig": "training.config",
    "TokenAccuracy": "training.metrics",
    "adam": "training.schedules",
    "average": "training.run",
    "load_config": "training.config",
    "paper_optimizer": "training.schedules",
    "train": "training.run",
}

__all__ = list(_HOME)


def __getattr__(name):
    # On first use: a config can be read, and refused, before Keras is loaded.
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = importlib.import_module(f"keras_transformer.{_HOME[name]}")
    return getattr(module, name)


def __dir__():
    return __all__
