"""The contract that searches, scores and translators have with models."""

import inspect

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.models.translation_model import TranslationModel
from reference import configs
from reference import models
from reference.marks import on_one_backend
from reference.weights import sources
from reference.weights import targets

CLASSES = [*kt.models.KINDS.values(), kt.models.Ensemble]
METHODS = [
    name
    for name, value in vars(kt.models.Decodable).items()
    if inspect.isfunction(value) and not name.startswith("__")
]
NAMES = [
    *("paper", "learned, deep encoder", "as T5", "deep, additive, unlike sides"),
    *("recurrent", "recurrent, no attention", "convolutional"),
]


@pytest.mark.one_backend
@pytest.mark.parametrize("method", METHODS)
def test_models_and_ensembles_take_the_same_arguments(method):
    expected = inspect.signature(getattr(kt.models.Decodable, method))
    for model_class in CLASSES:
        signature = inspect.signature(getattr(model_class, method))
        assert list(signature.parameters) == list(expected.parameters), model_class
        for name, parameter in signature.parameters.items():
            assert parameter.default == expected.parameters[name].default


@pytest.mark.parametrize(
    "name", [on_one_backend("paper"), "recurrent", "convolutional", "ensemble"]
)
def test_results_have_one_length_whatever_is_asked_for(name):
    members = ["paper", "halves"] if name == "ensemble" else [name]
    model = models.model(members[0])
    if name == "ensemble":
        model = kt.models.Ensemble([models.model(member) for member in members])
    assert isinstance(model, kt.models.Decodable)
    source, target = map(ops.convert_to_tensor, (sources(), targets()))
    for asked in (False, True):
        options = {"return_attention_weights": asked}
        encoded = model.encode(source, **options)
        assert isinstance(encoded, kt.models.Encoded)
        decoded = model.decode(target, encoded.memory, encoded.source_mask, **options)
        assert isinstance(decoded, kt.models.Decoded)
        state = model.start(encoded.memory, encoded.source_mask, 1, 3)
        assert isinstance(state, kt.models.SearchState)
        position = ops.convert_to_tensor(0, dtype="int32")
        step = model.decode_step(target[:, :1], position, *state, **options)
        assert isinstance(step, kt.models.StepOutput)
        for weights in (
            encoded.attention_weights,
            decoded.self_attention_weights,
            decoded.cross_attention_weights,
            step.cross_attention_weights,
        ):
            assert isinstance(weights, list) if asked else weights is None


@pytest.mark.one_backend
def test_a_model_without_one_of_the_methods_is_refused():
    class Unfinished(kt.Transformer):
        start = TranslationModel.start

    with pytest.raises(TypeError, match="Unfinished lacks start; define what every"):
        Unfinished(configs.config("paper"))


@pytest.mark.one_backend
@pytest.mark.parametrize("name", NAMES)
def test_each_weight_is_in_one_of_the_groups_that_freeze(name):
    """Embeddings, encoder and decoder together are the model, without a weight twice.

    Positions of the attention belong to the embeddings, and stand in the blocks, too.
    """
    model = models.build(name)
    groups = {
        group: {
            weight.path
            for layer in layers
            if layer is not None
            for weight in layer.trainable_weights
        }
        for group, layers in model.layer_groups.items()
    }
    assert list(groups) == ["embeddings", "encoder", "decoder"]
    assert set.union(*groups.values()) == {w.path for w in model.trainable_weights}
    shared = (groups["encoder"] | groups["decoder"]) & groups["embeddings"]
    assert not groups["encoder"] & groups["decoder"]
    assert all("_position/" in path for path in shared)
    np.testing.assert_array_less(0, [len(paths) for paths in groups.values()])


def test_a_name_in_place_of_a_config_is_refused():
    with pytest.raises(InputError, match=r"TransformerConfig\.from_preset"):
        kt.Transformer("tiny")
