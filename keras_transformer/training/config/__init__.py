"""Config of a training run: the file that says all of it, section by section."""

from keras_transformer.training.config.data_section import Corpus
from keras_transformer.training.config.data_section import DataSection
from keras_transformer.training.config.data_section import FilterSection
from keras_transformer.training.config.data_section import TokenizerSection
from keras_transformer.training.config.data_section import TrainingCorpus
from keras_transformer.training.config.run_config import RunConfig
from keras_transformer.training.config.run_config import as_begun
from keras_transformer.training.config.run_config import difference
from keras_transformer.training.config.run_config import json_schema
from keras_transformer.training.config.run_config import load_config
from keras_transformer.training.config.run_config import new_bookkeeping
from keras_transformer.training.config.run_config import without_places
from keras_transformer.training.config.training_section import EvaluationSection
from keras_transformer.training.config.training_section import LoraSection
from keras_transformer.training.config.training_section import OptimizerSection
from keras_transformer.training.config.training_section import TrainingSection

__all__ = [
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
    "as_begun",
    "difference",
    "json_schema",
    "load_config",
    "new_bookkeeping",
    "without_places",
]
