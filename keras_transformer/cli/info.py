"""`keras-transformer info`."""

from keras_transformer.cli import model_folder
from keras_transformer.cli import options


def info(model: options.Model) -> None:
    """Print the facts of a model."""
    for name, value in model_folder.load(model).info().items():
        print(f"{name}: {value}")
