"""Dtypes that a model has, and those that it refuses."""

import keras
import pytest

from reference import models


@pytest.mark.one_backend
@pytest.mark.parametrize("floatx", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("kind", ["paper", "recurrent", "convolutional"])
def test_another_floatx_is_refused_in_one_line(kind, floatx):
    keras.config.set_floatx(floatx)
    try:
        with pytest.raises(ValueError, match=floatx) as error:
            models.build(kind, dtype="float32")
    finally:
        keras.config.set_floatx("float32")
    assert "\n" not in str(error.value)


def test_float64_is_refused_in_one_line():
    with pytest.raises(ValueError, match="float32") as error:
        models.build("paper", dtype="float64")
    assert "\n" not in str(error.value)


X64 = """
import keras
import numpy as np
import keras_transformer as kt
from reference import models

tokenizer = kt.data.Tokenizer.train(["ein Haus a house, der Hund the dog"] * 9, 275)
for kind in ["paper"]:
    model = models.build(kind, vocabulary_size=275, dropout=0.1)
    translator = kt.Translator(model, tokenizer)
    options = {"beam_size": 2, "top_beams": 2, "no_repeat_ngram_size": 2}
    samples = {"sampling": True, "top_k": 3, "top_p": 0.9}
    for each in (options, samples):
        translator.translate(["a house"], max_length=6, prefixes=["ein"], **each)
    translator.score(["a house"], ["ein Haus"])
    model.compile("adam", kt.losses.LabelSmoothedCrossEntropy(0.1))
    ids = np.array([[5, 6, 7, 2], [8, 9, 2, 0]])
    model.fit({"source": ids, "target": ids}, ids, verbose=0)
print("done")
"""


@pytest.mark.one_backend("jax")
def test_search_scores_and_training_run_with_64_bit_numbers_on_jax(run_python):
    code = "import sys; sys.path.insert(0, 'tests')" + X64
    assert run_python(code, env={"JAX_ENABLE_X64": "1"}).split() == ["done"]
