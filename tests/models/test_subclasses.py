"""A subclass of a model comes back from a file as itself, or is refused."""

import pickle

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from reference import configs
from reference.models import logits_of
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources
from reference.weights import targets

pytestmark = pytest.mark.one_backend


@keras.saving.register_keras_serializable(package="test_subclasses")
class Sharper(kt.Transformer):
    """Other logits with the same weights: nothing in a file of weights tells them."""

    def logits(self, hidden):
        return 2.0 * super().logits(hidden)


class Unregistered(Sharper):
    """Keras finds it by its module, if at all."""


class Scaled(kt.RecurrentModel):
    """With an argument that no config of the parent has."""

    def __init__(self, config, factor=1.0, **kwargs):
        super().__init__(config, **kwargs)
        self.factor = factor

    def call(self, inputs, training=None, mask=None):
        return self.factor * super().call(inputs, training=training)


class ScaledAndSaved(Scaled):
    def get_config(self):
        return {**super().get_config(), "factor": self.factor}


def small(model_class, name="paper", **arguments):
    config = configs.config(name, num_encoder_layers=1, num_decoder_layers=1)
    return randomize(model_class(config, **arguments))


def scaled(model_class):
    return small(model_class, "recurrent, nothing tied", factor=3.0)


@pytest.mark.parametrize("compiled", [False, True], ids=["plain", "compiled"])
@pytest.mark.parametrize("model_class", [Sharper, Unregistered])
def test_a_saved_subclass_comes_back_as_itself(model_class, compiled, tmp_path):
    model = small(model_class)
    if compiled:
        model.compile("sgd", "sparse_categorical_crossentropy")
    model.save(tmp_path / "model.keras")
    custom = {"custom_objects": {"Unregistered": Unregistered}}
    loaded = keras.saving.load_model(tmp_path / "model.keras", **custom)
    again = pickle.loads(pickle.dumps(model)) if model_class is Sharper else loaded
    from_config = model_class.from_config(model.get_config())
    from_config.set_weights(model.get_weights())
    expected = logits_of(model, sources(), targets())
    for other in (loaded, again, from_config):
        assert type(other) is model_class
        found = logits_of(other, sources(), targets())
        np.testing.assert_array_equal(found, expected)


def test_arguments_of_a_subclass_are_kept_or_asked_for(tmp_path):
    with pytest.raises(NotImplementedError, match=r"Scaled takes factor.*get_config"):
        scaled(Scaled).save(tmp_path / "model.keras")
    model = scaled(ScaledAndSaved)
    model.save(tmp_path / "model.keras")
    custom = {"custom_objects": {"ScaledAndSaved": ScaledAndSaved}}
    loaded = keras.saving.load_model(tmp_path / "model.keras", **custom)
    assert type(loaded) is ScaledAndSaved and loaded.factor == 3.0
    expected = logits_of(model, sources(), targets())
    np.testing.assert_array_equal(logits_of(loaded, sources(), targets()), expected)


def test_a_model_folder_gives_back_a_subclass(tmp_path):
    """It names the module and the class; test_own_kinds.py has what it refuses."""
    tokenizer = kt.data.Tokenizer.train(["ein Hund", "a dog"], 270)
    config = kt.TransformerConfig.from_preset(
        "tiny", vocabulary_size=270, num_encoder_layers=1, num_decoder_layers=1
    )
    for model_class in (Sharper, Unregistered):
        translator = kt.Translator(model_class(config), tokenizer)
        translator.save(tmp_path / "folder")
        loaded = kt.Translator.load(tmp_path / "folder")
        assert type(loaded.model) is model_class


def test_a_clone_is_no_plain_model_of_a_subclass():
    with pytest.raises(TypeError, match=r"Scaled.*\.from_config"):
        keras.models.clone_model(scaled(ScaledAndSaved))
    model = small(kt.Transformer)
    clone = keras.models.clone_model(model)
    clone.set_weights(model.get_weights())
    inputs = {"source": sources(), "target": targets()}
    inputs = {n: ops.convert_to_tensor(ids) for n, ids in inputs.items()}
    np.testing.assert_allclose(numpy(clone(inputs)), numpy(model(inputs)), atol=1e-6)


def test_a_subclass_is_called_within_another_model():
    model = small(Sharper)
    inputs = {
        n: keras.Input((None,), dtype="int32", name=n) for n in ("source", "target")
    }
    outer = keras.Model(inputs, model(inputs))
    ids = {"source": sources(), "target": targets()}
    ids = {n: ops.convert_to_tensor(each) for n, each in ids.items()}
    np.testing.assert_allclose(numpy(outer(ids)), numpy(model(ids)), atol=1e-6)
