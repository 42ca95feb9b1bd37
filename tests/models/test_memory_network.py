"""The memory network against NumPy, its config, and a task that it learns."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer.data import stories as told
from keras_transformer.models import MemoryNetwork
from reference import numpy_other_kinds
from reference.sizes import HIDDEN_DIM
from reference.sizes import SOURCE_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import read
from reference.weights import stories

HOPS = 3


def small(**options):
    model = MemoryNetwork(
        VOCABULARY_SIZE, HIDDEN_DIM, HOPS, max_sentences=SOURCE_LENGTH, **options
    )
    return randomize(model)


def inputs():
    """Questions are other sentences, so that they have fewer words."""
    story = stories()
    arrays = {"story": story, "question": story[:, 0, :5]}
    return {name: ops.convert_to_tensor(array) for name, array in arrays.items()}


@pytest.mark.parametrize("linear", [False, True])
def test_it_is_the_formula(linear):
    model = small(linear=linear)
    for embedding in model.embeddings:  # a product of hops without softmax grows
        embedding.words.embeddings.assign(0.3 * embedding.words.embeddings)
    logits = numpy(model(inputs()))
    attention = numpy(model.attention(**inputs()))
    for row, story in enumerate(stories()):
        sentences = [[int(i) for i in ids if i] for ids in story if ids.any()]
        expected, its = numpy_other_kinds.memory_network(
            HOPS, read(model), sentences, sentences[0][:5], linear
        )
        scale = 1.0 + np.abs(expected).max()
        np.testing.assert_allclose(logits[row], expected, atol=1e-5 * scale)
        found = attention[row, :, : len(sentences)]
        np.testing.assert_allclose(found, its, atol=1e-5 * (1.0 + np.abs(its).max()))


@pytest.mark.one_backend
def test_one_embedding_more_than_hops_is_all_it_has():
    sizes = (VOCABULARY_SIZE + SOURCE_LENGTH) * HIDDEN_DIM
    assert small().count_params() == (HOPS + 1) * sizes


@pytest.mark.one_backend
def test_it_comes_back_from_its_config_and_from_a_file(tmp_path):
    model = small(linear=True, dtype="mixed_bfloat16", name="memories")
    again = MemoryNetwork.from_config(model.get_config())
    assert again.get_config() == model.get_config()
    assert again.hops[0].linear and again.hops[0].compute_dtype == "bfloat16"
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert type(loaded) is MemoryNetwork
    expected, found = (numpy(m(inputs())) for m in (model, loaded))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.one_backend
def test_the_weights_of_a_linear_start_fit_the_model_with_softmax():
    linear, soft = (
        small(linear=True),
        MemoryNetwork(VOCABULARY_SIZE, HIDDEN_DIM, HOPS, max_sentences=SOURCE_LENGTH),
    )
    soft.set_weights(linear.get_weights())
    expected = numpy(small()(inputs()))
    np.testing.assert_array_equal(numpy(soft(inputs())), expected)
    assert np.abs(numpy(linear(inputs())) - expected).max() > 0.1


@pytest.mark.one_backend
def test_a_memory_has_a_hop():
    with pytest.raises(ValueError, match="num_hops is 0, but a memory has 1 or more"):
        MemoryNetwork(VOCABULARY_SIZE, HIDDEN_DIM, num_hops=0)


@pytest.mark.one_backend("jax")
def test_one_hop_learns_to_answer_with_one_fact():
    keras.utils.set_random_seed(1)
    features, answers = told.encode(told.tell(1, 1200), max_sentences=8)
    train = {name: array[:1000] for name, array in features.items()}
    test = {name: array[1000:] for name, array in features.items()}
    model = MemoryNetwork(len(told.VOCABULARY), 16, num_hops=1, max_sentences=8)
    model.compile(
        keras.optimizers.Adam(0.02),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
    )
    model.fit(train, answers[:1000], batch_size=50, epochs=8, verbose=0)
    found = model.evaluate(test, answers[1000:], verbose=0, return_dict=True)
    assert found["accuracy"] > 0.9
