"""`keras-transformer info`."""

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import writing


def info(model: options.Model, imports: options.Imports = None) -> None:
    """Print the kind, sizes, languages and decoding of a model."""
    facts = model_folder.load(model, imports=imports or ()).info()
    with writing.writer(None) as write:
        write("".join(f"{name}: {value}\n" for name, value in facts.items()))
