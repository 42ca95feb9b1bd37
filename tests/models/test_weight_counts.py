"""The number of weights: the closed formula, the paper's table, real variables."""

import keras
import numpy as np
import pytest

from keras_transformer.config import PRESETS
from keras_transformer.config import TransformerConfig
from keras_transformer.layers.initial_values import left_out
from keras_transformer.models import Transformer
from reference.weights import numpy

pytestmark = pytest.mark.one_backend
VOCABULARY_SIZE = 37_000

#: The rows of Table 3 of the paper: N, D, F, H, d_k, d_v and the weights that it
#: prints, in millions (None: the row prints none, since they are those of base).
TABLE_3 = {
    "base": (6, 512, 2048, 8, 64, 64, 65),
    "a-1-head": (6, 512, 2048, 1, 512, 512, None),
    "a-4-heads": (6, 512, 2048, 4, 128, 128, None),
    "a-16-heads": (6, 512, 2048, 16, 32, 32, None),
    "a-32-heads": (6, 512, 2048, 32, 16, 16, None),
    "b-head-dim-16": (6, 512, 2048, 8, 16, 64, 58),
    "b-head-dim-32": (6, 512, 2048, 8, 32, 64, 60),
    "c-2-layers": (2, 512, 2048, 8, 64, 64, 36),
    "c-4-layers": (4, 512, 2048, 8, 64, 64, 50),
    "c-8-layers": (8, 512, 2048, 8, 64, 64, 80),
    "c-hidden-256": (6, 256, 2048, 8, 32, 32, 28),
    "c-hidden-1024": (6, 1024, 2048, 8, 128, 128, 168),
    "c-intermediate-1024": (6, 512, 1024, 8, 64, 64, 53),
    "c-intermediate-4096": (6, 512, 4096, 8, 64, 64, 90),
    "d-dropout-0.0": (6, 512, 2048, 8, 64, 64, None),
    "d-dropout-0.2": (6, 512, 2048, 8, 64, 64, None),
    "e-learned-positions": (6, 512, 2048, 8, 64, 64, None),
    "big": (6, 1024, 4096, 16, 64, 64, 213),
}


def closed_formula(name, vocabulary_size):
    """V·D + N(A + P + 4D) + N(2A + P + 6D), A = 2DH(d_k + d_v), P = 2DF + F + D."""
    layers, hidden, inner, heads, keys, values, _ = TABLE_3[name]
    attention = 2 * hidden * heads * (keys + values)
    feed_forward = 2 * hidden * inner + inner + hidden
    encoder = layers * (attention + feed_forward + 4 * hidden)
    decoder = layers * (2 * attention + feed_forward + 6 * hidden)
    positions = 2 * 1024 * hidden if name == "e-learned-positions" else 0
    return vocabulary_size * hidden + encoder + decoder + positions


def test_every_row_of_the_table_is_a_preset():
    assert set(PRESETS) == {*TABLE_3, "tiny"}


@pytest.mark.parametrize("name", TABLE_3)
def test_presets_are_the_rows_of_the_table(name):
    config = TransformerConfig.from_preset(name, vocabulary_size=VOCABULARY_SIZE)
    layers, hidden, inner, heads, keys, values, millions = TABLE_3[name]
    assert config.num_encoder_layers == config.num_decoder_layers == layers
    assert (config.hidden_dim, config.intermediate_dim) == (hidden, inner)
    assert (config.num_heads, config.head_dim, config.value_dim) == (
        heads,
        keys,
        values,
    )
    assert config.num_weights == closed_formula(name, VOCABULARY_SIZE)
    if millions is not None:
        assert abs(config.num_weights / 1e6 / millions - 1.0) < 0.07


@pytest.mark.parametrize(
    ("name", "field", "value"),
    [
        ("base", "dropout", 0.1),
        ("big", "dropout", 0.3),
        ("d-dropout-0.0", "dropout", 0.0),
        ("d-dropout-0.2", "dropout", 0.2),
        ("e-learned-positions", "position", "learned"),
        ("tiny", "dropout", 0.3),
    ],
)
def test_rows_that_change_no_size(name, field, value):
    config = TransformerConfig.from_preset(name, vocabulary_size=VOCABULARY_SIZE)
    assert getattr(config, field) == value


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_the_papers_architecture(name):
    config = TransformerConfig.from_preset(name, vocabulary_size=VOCABULARY_SIZE)
    assert not config.normalize_first and not config.final_norm
    assert not config.embedding_norm and not config.use_bias and not config.output_bias
    assert config.tie_embeddings == "all" and config.scale_embeddings
    assert config.activation == "relu" and config.layer_norm_epsilon == 1e-6
    assert config.attention_dropout == config.activation_dropout == 0.0
    assert config.attention_window is None and config.position_offset == 0


@pytest.mark.parametrize(
    ("name", "vocabulary_size", "weights"),
    [("base", 37_000, 63_045_632), ("tiny", 10_000, 2_598_912)],
)
def test_built_presets_hold_the_published_number_of_weights(
    name, vocabulary_size, weights
):
    config = TransformerConfig.from_preset(name, vocabulary_size=vocabulary_size)
    assert config.num_weights == weights
    assert Transformer(config).count_params() == weights


def test_big_has_the_published_number_of_weights():
    config = TransformerConfig.from_preset("big", vocabulary_size=37_000)
    assert config.num_weights == 214_171_648


# === Initial values ===


def initial_values():
    config = TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=1_009,
        use_bias=True,
        output_bias=True,
        tie_embeddings="none",
        position="learned",
    )
    return {variable.path: numpy(variable) for variable in Transformer(config).weights}


@pytest.fixture(scope="module")
def initial():
    return initial_values()


def weights_named(initial, *names):
    found = {p: v for p, v in initial.items() if p.rsplit("/", 1)[-1] in names}
    assert found
    return found


def test_embeddings_begin_normal_with_deviation_of_the_root_of_their_width(initial):
    for path, values in weights_named(initial, "embeddings").items():
        assert abs(values.std() * 128**0.5 - 1.0) < 0.02, path
        assert abs(values.mean()) < 1e-3, path
        assert np.abs(values).max() > 3.0 * 128**-0.5, (
            path
        )  # not truncated, not uniform


def test_projections_begin_glorot_uniform_with_fans_of_their_own(initial):
    kernels = {p: v for p, v in initial.items() if p.endswith("_kernel")}
    assert len(kernels) == 4 * (4 + 2) + 4 * (2 * 4 + 2)
    for path, values in kernels.items():
        limit = (6.0 / sum(values.shape)) ** 0.5
        assert 0.995 * limit < np.abs(values).max() <= limit * (1 + 1e-6), path
        assert abs(values.std() / (limit / 3**0.5) - 1.0) < 0.02, path
        assert abs(values.mean()) < 0.03 * limit, path


def test_no_two_matrices_begin_equal(initial):
    matrices = [values for values in initial.values() if values.ndim > 1]
    assert len({values.tobytes() for values in matrices}) == len(matrices)


def test_biases_begin_at_0_and_normalizations_as_the_identity(initial):
    biases = {p: v for p, v in initial.items() if p.endswith("bias")}
    assert len(biases) == 4 * (4 + 2) + 4 * (2 * 4 + 2) + 1
    for values in (*biases.values(), *weights_named(initial, "beta").values()):
        assert (values == 0).all()
    for values in weights_named(initial, "gamma").values():
        assert (values == 1).all()


def test_no_random_numbers_are_drawn_for_weights_that_a_file_has(initial, monkeypatch):
    def draw(*arguments, **options):
        raise AssertionError("a random number is drawn")

    for kind in (keras.initializers.RandomNormal, keras.initializers.GlorotUniform):
        monkeypatch.setattr(kind, "__call__", draw)
    with left_out():
        blank = initial_values()
    assert blank.keys() == initial.keys()
    assert all(blank[path].shape == initial[path].shape for path in initial)
    with pytest.raises(AssertionError, match="is drawn"):
        initial_values()


def test_every_weight_is_looked_at(initial):
    known = ("embeddings", "_kernel", "bias", "gamma", "beta")
    assert all(path.endswith(known) for path in initial)
