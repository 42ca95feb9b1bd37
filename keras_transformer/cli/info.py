"""`keras-transformer info`."""

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import writing


def info(model: options.Model) -> None:
    """Print what is known about a model: kind, sizes, languages, decoding."""
    facts = model_folder.load(model).info()
    with writing.writer(None) as write:
        write("".join(f"{name}: {value}\n" for name, value in facts.items()))
