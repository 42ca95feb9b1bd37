"""One set of weights: the three backends give the same logits and gradients.

The backend under test writes the files and its own results; the next one reads them in
a process of its own.
"""

import collections
import importlib.util
import zipfile
from pathlib import Path

import keras
import numpy as np
import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models import KINDS
from keras_transformer.models import Transformer
from reference import autodiff
from reference.models import logits_of
from reference.next_backend import NEXT
from reference.weights import ids
from reference.weights import numpy

# Two of the three steps round the backends meet all of them.
pytestmark = [pytest.mark.slow, pytest.mark.one_backend("torch", "jax")]

VOCABULARY_SIZE = 1_009
LABELS = ids((13, 17, 5), seed=1, vocabulary_size=VOCABULARY_SIZE)
SOURCE = ids((19, 7, 11), seed=2, vocabulary_size=VOCABULARY_SIZE)
TARGET = np.pad(LABELS[:, :-1], ((0, 0), (1, 0)), constant_values=1)

# Smooth: where the input of a ReLU is 0 but for rounding, gradients jump.
SMOOTH = {"activation": "gelu", "num_encoder_layers": 2, "num_decoder_layers": 2}

# Of the other kinds one layer of each part is enough: they repeat it.
SMALL = {"hidden_dim": 32, "num_encoder_layers": 1, "num_decoder_layers": 1}

# What another backend runs; `{...}` are paths.
READ = """
import sys
sys.path[:0] = {folders!r}
import numpy as np
import test_cross_backend as this
np.savez({folder!r} + "/read.npz", **this.read({folder!r}))
"""


def gradients_of(model, training=False):
    """{path: gradient of the fused loss}."""
    loss = LabelSmoothedCrossEntropy(0.1)
    variables = model.trainable_variables

    def value():
        output = model.output_embedding
        return loss.fused(
            model.hidden_states(
                {"source": SOURCE, "target": TARGET}, training=training
            ),
            output.embeddings,
            output.bias,
            LABELS,
        )[0]

    gradients = autodiff.of_variables(value, variables)
    return {v.path: g for v, g in zip(variables, gradients, strict=True)}


def results_of(kind, **models):
    """{kind and name: logits}, and the gradients of the first model."""
    first = next(iter(models.values()))
    results = {
        name.replace("_", " "): logits_of(model, SOURCE, TARGET)
        for name, model in models.items()
    } | gradients_of(first)
    return {f"{kind}/{name}": array for name, array in results.items()}


def build(kind):
    model_class = KINDS[kind]
    fields = SMOOTH if kind == "transformer" else SMALL
    config = model_class.config_class.from_preset(
        "tiny", vocabulary_size=VOCABULARY_SIZE, **fields
    )
    return model_class(config)


def with_dropout(folder):
    """{kind and "dropout " and path: gradient}, by the first draws after a seed."""
    keras.utils.set_random_seed(5)
    model = build("transformer")
    model.load_weights(Path(folder) / "transformer.weights.h5")
    gradients = gradients_of(model, training=True)
    return {f"transformer/dropout {path}": g for path, g in gradients.items()}


def read(folder):
    """Logits of both files, and gradients, of each kind: {name: array}."""
    results = {}
    for kind in KINDS:
        model = keras.saving.load_model(Path(folder) / f"{kind}.keras")
        fresh = KINDS[kind](model.config)
        fresh.load_weights(Path(folder) / f"{kind}.weights.h5")
        results |= results_of(kind, keras_file=model, weights_file=fresh)
    return results | with_dropout(folder)


@pytest.fixture(scope="module")
def pair(tmp_path_factory, run_python):
    """{name: array} of the next backend, and of this one."""
    if not importlib.util.find_spec(NEXT):
        pytest.skip(f"needs {NEXT}")
    folder = tmp_path_factory.mktemp("model")
    own = {}
    for kind in KINDS:
        model = build(kind)
        model.compile(keras.optimizers.Adam(), loss=LabelSmoothedCrossEntropy())
        model.save(folder / f"{kind}.keras")
        model.save_weights(folder / f"{kind}.weights.h5")
        own |= results_of(kind, keras_file=model, weights_file=model)
    own |= with_dropout(folder)
    run_python(
        READ.format(
            folders=list(map(str, Path(__file__).parents[:2])), folder=str(folder)
        ),
        backend=NEXT,
    )
    with np.load(folder / "read.npz") as arrays:
        return dict(arrays), own


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("file", ["keras file", "weights file"])
def test_files_give_the_same_logits_on_another_backend(pair, file, kind):
    found, expected = (results[f"{kind}/{file}"] for results in pair)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_are_the_same_on_another_backend(pair, kind):
    found, expected = (
        {
            name.removeprefix(f"{kind}/"): array
            for name, array in results.items()
            if name.startswith(f"{kind}/")
        }
        for results in pair
    )
    assert set(found) == set(expected)
    paths = set(expected) - {"keras file", "weights file"}
    # The scale is that of the block: gradients of queries and keys are small
    # differences of its larger terms.
    scales = collections.defaultdict(float)
    for path in paths:
        largest = np.abs(expected[path]).max()
        assert largest > 0, path
        block = path.partition("/")[0]
        scales[block] = max(scales[block], largest)
        if path.startswith("dropout "):  # which something has dropped
            assert np.any(expected[path] != expected[path.removeprefix("dropout ")])
    for path in paths:
        close = 1e-5 * scales[path.partition("/")[0]]
        np.testing.assert_allclose(
            found[path], expected[path], rtol=0, atol=close, err_msg=path
        )


def test_a_file_says_nothing_of_its_backend(tmp_path):
    model = Transformer(TransformerConfig.from_preset("tiny", vocabulary_size=53))
    model.save(tmp_path / "model.keras")
    with zipfile.ZipFile(tmp_path / "model.keras") as file:
        config = file.read("config.json").decode()
    assert not [name for name in ("tensorflow", "jax", "torch") if name in config]
    assert numpy(model.weights[0]).shape == (53, 128)
