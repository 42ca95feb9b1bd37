"""Config of a training run: the file that says all of it, section by section."""

from keras_transformer.training.config.run_config import RunConfig
from keras_transformer.training.config.run_config import difference
from keras_transformer.training.config.run_config import json_schema
from keras_transformer.training.config.run_config import load_config
from keras_transformer.training.config.run_config import new_bookkeeping

__all__ = ["RunConfig", "difference", "json_schema", "load_config", "new_bookkeeping"]
