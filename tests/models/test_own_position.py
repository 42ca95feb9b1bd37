"""A positional encoding that is added from outside: ALiBi, by one class and one name.

Attention with linear biases: Press et al., 2022, https://arxiv.org/abs/2108.12409.
"""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from reference import numpy_transformer
from reference import sizes
from reference.weights import ids
from reference.weights import numpy
from reference.weights import read

pytestmark = pytest.mark.one_backend

VOCABULARY_SIZE = sizes.VOCABULARY_SIZE


def slopes(num_heads):
    """2^(-8/H), 2^(-16/H), ...: (H,) float32."""
    return np.array([2 ** (-8 * (h + 1) / num_heads) for h in range(num_heads)], "f")


@keras.saving.register_keras_serializable(package="test_own_position")
class Alibi(kt.layers.RelativePositionalEncoding):
    """The further away, the less: -slope * |distance|, another slope for each head."""

    def __init__(self, num_heads, **kwargs):
        super().__init__(**kwargs)
        self.num_heads = num_heads

    def bias(self, query_positions, key_positions):
        distance = ops.expand_dims(query_positions, 1) - key_positions  # (T, S)
        distance = ops.cast(ops.abs(distance), "float32")
        return -ops.reshape(slopes(self.num_heads), (-1, 1, 1)) * distance

    def get_config(self):
        return {**super().get_config(), "num_heads": self.num_heads}


kt.models.register_position(
    "alibi", lambda config, side, **options: Alibi(config.num_heads, **options)
)


def config(**fields):
    return kt.TransformerConfig(
        vocabulary_size=VOCABULARY_SIZE,
        hidden_dim=32,
        intermediate_dim=48,
        num_heads=4,
        num_encoder_layers=1,
        num_decoder_layers=2,
        position="alibi",
        dropout=0.0,
        **fields,
    )


@pytest.fixture(scope="module")
def trained():
    """A model that learned to copy, and the losses of the two halves of that."""
    keras.utils.set_random_seed(1)
    model = kt.Transformer(config())
    model.compile(
        kt.training.adam(3e-3, global_clipnorm=1.0),
        kt.training.LabelSmoothedCrossEntropy(0.0),
    )
    source = np.random.default_rng(1).integers(3, VOCABULARY_SIZE, (64, 6))
    labels = np.concatenate([source, np.full((64, 1), 2)], axis=1)
    target = np.concatenate([np.ones((64, 1), int), source], axis=1)
    history = model.fit(
        {"source": source, "target": target}, labels, batch_size=16, epochs=4, verbose=0
    )
    return model, history.history["loss"]


def logits_of(model, source, target):
    inputs = {"source": source, "target": target}
    return numpy(model({n: ops.convert_to_tensor(i) for n, i in inputs.items()}))


def test_it_trains(trained):
    _, losses = trained
    assert losses[-1] < losses[0]


def test_it_is_its_formula(trained, monkeypatch):
    model, _ = trained
    scale = slopes(4)

    def position(config, weights, length, side):
        distance = np.abs(np.subtract.outer(np.arange(length), np.arange(length)))
        return {"bias": -scale[:, None, None] * distance}

    monkeypatch.setattr(numpy_transformer, "relative_position", position)
    source, target = ids((9,), seed=1), ids((7,), seed=2)
    expected = numpy_transformer.transformer(
        model.config, read(model), source[0], target[0]
    )
    found = logits_of(model, source, target)[0]
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
    monkeypatch.setattr(numpy_transformer, "relative_position", lambda *_: None)
    other = numpy_transformer.transformer(
        model.config, read(model), source[0], target[0]
    )
    assert np.abs(found - other).max() > 0.01  # it makes a difference


@pytest.mark.parametrize("start", ["start", "start_search"])
def test_its_cached_decoding_is_teacher_forcing(trained, start):
    model, _ = trained
    source, target = ids((9, 4), seed=1), ids((7, 7), seed=2)
    encoded = model.encode(ops.convert_to_tensor(source))
    constants, cache = getattr(model, start)(encoded.memory, encoded.source_mask, 2, 8)
    steps = []
    for position in range(7):
        tokens = np.stack([target[:, position]] * 2, axis=1)
        step = model.decode_step(
            ops.convert_to_tensor(tokens),
            ops.convert_to_tensor(position, dtype="int32"),
            constants,
            cache,
        )
        cache = step.cache
        steps.append(numpy(step.logits)[:, 1])
    np.testing.assert_allclose(
        np.stack(steps, axis=1), logits_of(model, source, target), atol=2e-5
    )


def test_its_file_comes_back(trained, tmp_path):
    model, _ = trained
    model.save(tmp_path / "model.keras")
    again = keras.saving.load_model(tmp_path / "model.keras")
    assert again.config.position == "alibi"
    source, target = ids((9, 4), seed=1), ids((7, 7), seed=2)
    np.testing.assert_array_equal(
        logits_of(again, source, target), logits_of(model, source, target)
    )


@pytest.mark.no_backend
def test_a_name_of_the_package_is_not_given_again():
    with pytest.raises(ValueError, match="position 'rotary' is built in"):
        kt.models.register_position("rotary", lambda *_, **__: None)
