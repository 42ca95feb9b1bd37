"""One SavedModel for all tests of it."""

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
def exported(translator, sources, tmp_path_factory):
    """The folder of its first version as a SavedModel."""
    from keras_transformer.export import saved_model

    return saved_model.export(
        translator,
        tmp_path_factory.mktemp("saved_models") / "en-de",
        warm_up=sources[:2],
        card="# Of a test",
    )


@pytest.fixture(scope="session")
def loaded(exported):
    """Its signatures, loaded by TensorFlow."""
    import tensorflow as tf

    return tf.saved_model.load(str(exported)).signatures
