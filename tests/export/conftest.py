"""One SavedModel for all tests of it."""

import filelock
import pytest

import keras_transformer as kt
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines


@pytest.fixture(scope="session")
def sources():
    """The lines of the fixture."""
    return lines("source")


@pytest.fixture(scope="session")
def odd_lines():
    """White space of all kinds, and what has no piece of its own."""
    return ["", " \t\r\n", "\u3000\xa0\u2028", "a\nb", "nul \0 in it", "🐌 ☃", " a  b "]


@pytest.fixture(scope="session")
def translator():
    """The model folder of the fixtures."""
    return kt.Translator.load(FOLDER)


@pytest.fixture(scope="session")
def said(translator, sources, odd_lines):
    """The four best hypotheses of each of these lines."""
    every = sources + odd_lines
    found = translator.translate(every, top_beams=4, return_details=True)
    return dict(zip(every, found, strict=True))


@pytest.fixture(scope="session")
def exported(translator, sources, tmp_path_factory, worker_id):
    """The folder of its first version as a SavedModel, one for all workers."""
    from keras_transformer.export import saved_model

    folder = tmp_path_factory.getbasetemp()
    folder = folder if worker_id == "master" else folder.parent
    output = folder / "saved_models" / "en-de"
    with filelock.FileLock(folder / "saved_models.lock"):
        if not output.exists():
            arguments = {"warm_up": sources[:2], "card": "# Of a test"}
            saved_model.export(translator, output, **arguments)
    return output / "1"


@pytest.fixture(scope="session")
def loaded(exported):
    """Its signatures, loaded by TensorFlow."""
    import tensorflow as tf

    return tf.saved_model.load(str(exported)).signatures
