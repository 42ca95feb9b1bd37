"""A model with an attention window: blocks in training, a ring cache in a search."""

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import DecodingOptions
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers.banded_attention import SMALLEST_BLOCK
from keras_transformer.models import Transformer
from keras_transformer.models.search import search
from reference import configs
from reference.models import logits_of
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize

pytestmark = pytest.mark.one_backend
WINDOW, LENGTH = 2, 2 * SMALLEST_BLOCK + 3
SOURCE = ids([LENGTH, LENGTH - 20], seed=1)
TARGET = ids([LENGTH, 9], seed=2)


class Masked(Transformer):
    """A Transformer whose attention knows of no window: the model masks it."""

    @staticmethod
    def block_parts(config, side, policy, position):
        parts = Transformer.block_parts(config, side, policy, position)
        heads = configs.SMALL["num_heads"]
        parts["self_attention"] = MultiHeadAttention(
            heads, config.head_dim, dtype=policy, name="self_attention"
        )
        return parts


@pytest.fixture(scope="module")
def models():
    """One restricts its own attention, the other has a mask; the same weights."""
    config = configs.config(
        "paper", attention_window=WINDOW, max_sequence_length=LENGTH + 1
    )
    restricted, masked = randomize(Transformer(config)), Masked(config)
    masked.set_weights(restricted.get_weights())
    return restricted, masked


def places(model, length, start="start"):
    memory, mask, _ = model.encode(ops.convert_to_tensor(SOURCE))
    _, cache = getattr(model, start)(memory, mask, 3, length)
    layers = cache if start == "start" else cache.layers
    return layers[0][0].shape[-2]


def test_a_model_gives_what_its_masked_form_gives(models):
    restricted, masked = models
    assert restricted.target_bias.window is None and masked.target_bias.window == WINDOW
    found, expected = (logits_of(model, SOURCE, TARGET) for model in models)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


def test_a_cache_has_no_more_places_than_a_window_sees(models):
    restricted, masked = models
    assert places(restricted, 11) == WINDOW + 1
    assert places(restricted, 11, "start_search") == 3 * (WINDOW + 1)
    assert places(restricted, 2) == 2
    assert places(masked, 11) == 11


def test_a_longer_cache_serves_as_well(models):
    """Exports and callers of `decode_step` have caches of all positions."""
    restricted, masked = models
    memory, mask, _ = restricted.encode(ops.convert_to_tensor(SOURCE))
    constants, cache = masked.start(memory, mask, None, 9)
    expected = logits_of(masked, SOURCE, TARGET[:, :9])
    for position in range(9):
        logits, cache, _ = restricted.decode_step(
            ops.convert_to_tensor(TARGET[:, position : position + 1]),
            ops.convert_to_tensor(position, dtype="int32"),
            constants,
            cache,
        )
        np.testing.assert_allclose(
            numpy(logits)[:, 0], expected[:, position], rtol=1e-5, atol=1e-5
        )


@pytest.mark.parametrize("beam_size", [1, 3, 9], ids=["greedy", "shared", "copied"])
def test_a_search_finds_what_its_masked_form_finds(models, beam_size):
    """Beyond the ring's places, with hypotheses that change their order."""
    options = DecodingOptions(beam_size=beam_size, min_length=7, max_length=7)
    source = ops.convert_to_tensor(SOURCE[:, :5])
    limits = ops.convert_to_tensor(np.array([7, 7], "int32"))
    found, expected = (
        search(model, source, limits, length=7, options=options) for model in models
    )
    np.testing.assert_array_equal(numpy(found.tokens), numpy(expected.tokens))
    np.testing.assert_allclose(numpy(found.scores), numpy(expected.scores), atol=1e-4)
