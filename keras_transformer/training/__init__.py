"""Training: metrics, schedule and optimizer for plain `fit`, and whole runs."""

import lazy_loader

# On first use: a config can be read, and refused, before Keras is loaded.
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
