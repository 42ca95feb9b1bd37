"""Keras' own `model.export` of models and layers: the same numbers at other sizes."""

import warnings

import keras
import numpy as np
import pytest

from keras_transformer.layers import MultiHeadAttention
from reference import models
from reference.marks import on_one_backend
from reference.weights import ids
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize

pytestmark = pytest.mark.export

BACKEND = keras.backend.backend()
TOOLS = {"tensorflow": "tf2onnx", "jax": "jax2onnx"}
LENGTHS = (([3], [1]), ([5, 2, 4], [7, 7, 3]), ([2, 2], [4, 9]))  # source, target


def exported(model, path):
    """A session of onnxruntime with what Keras exports."""
    if BACKEND in TOOLS:
        pytest.importorskip(TOOLS[BACKEND])
    onnxruntime = pytest.importorskip("onnxruntime")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the exporters, about themselves
        model.export(path, format="onnx", verbose=False)
    return onnxruntime.InferenceSession(path)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="elsewhere for fixed sizes alone")
@pytest.mark.parametrize("name", ["paper", "ssru", "recurrent", "convolutional"])
def test_keras_exports_a_model_to_onnx_for_sentences_of_any_length(name, tmp_path):
    model = models.build(name, num_encoder_layers=1, num_decoder_layers=1)
    randomize(model)
    inputs = [
        {"source": ids(sources, 1), "target": ids(targets, 2)}
        for sources, targets in LENGTHS
    ]
    expected = [models.logits_of(model, **batch) for batch in inputs]
    session = exported(model, tmp_path / "model.onnx")
    for batch, logits in zip(inputs, expected, strict=True):
        (found,) = session.run(None, batch)
        np.testing.assert_allclose(found, logits, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("heads", [on_one_backend(1), 2])
def test_attention_that_keras_exports_sees_more_than_one_position(heads, tmp_path):
    """PyTorch traces it over a single one."""
    inputs = keras.Input((None, 6))
    model = keras.Model(inputs, MultiHeadAttention(heads, 4)(inputs))
    rows = [normal(2, 3, 6), normal(4, 7, 6), normal(1, 1, 6)]
    expected = [numpy(model(row)) for row in rows]
    session = exported(model, tmp_path / "attention.onnx")
    (name,) = [given.name for given in session.get_inputs()]
    for row, output in zip(rows, expected, strict=True):
        (found,) = session.run(None, {name: row})
        np.testing.assert_allclose(found, output, rtol=1e-4, atol=1e-5)
