"""NaN from a model is an error that says so, not a text and not another error."""

import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.models.search import search
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

SOURCES = sorted(lines("source"), key=len)[:2]


@pytest.fixture(scope="module")
def broken():
    """A translator whose weights hold a NaN."""
    translator = kt.Translator.load(FOLDER)
    first, *_ = translator.model.trainable_weights
    value = np.array(first.numpy() if hasattr(first, "numpy") else first)
    value[...] = np.nan
    first.assign(value)
    return translator


@pytest.mark.parametrize(
    "options",
    [
        {"beam_size": 4},
        pytest.param({"beam_size": 1}, marks=pytest.mark.one_backend),
        pytest.param({"sampling": True}, marks=pytest.mark.one_backend),
    ],
)
def test_a_model_that_gives_nan_says_so(broken, options):
    with pytest.raises(
        InputError, match="line 1: the model gives NaN because its weight"
    ):
        broken.translate(SOURCES[:1], **options)


@pytest.mark.one_backend
def test_scores_that_are_nan_are_refused(broken):
    with pytest.raises(
        InputError, match="pair 1: the model gives NaN because its weight"
    ):
        broken.score(SOURCES[:1], ["Ja."])


@pytest.mark.one_backend
@pytest.mark.parametrize("beam_size", [1, 3])
def test_a_nan_that_comes_late_is_not_lost(beam_size, monkeypatch):
    """Hypotheses that ended before it are not given back as if it had not been."""
    translator = kt.Translator.load(FOLDER)
    step = translator.model.decode_step

    def late(tokens, position, *arguments, **options):
        output = step(tokens, position, *arguments, **options)
        logits = ops.where(position < 3, output.logits, float("nan"))
        return output._replace(logits=logits)

    monkeypatch.setattr(translator.model, "decode_step", late)
    source = translator.tokenizer.encode(SOURCES[:1])
    result = search(
        translator.model,
        ops.convert_to_tensor(source, "int32"),
        ops.convert_to_tensor([9], "int32"),
        length=9,
        options=DecodingOptions(beam_size=beam_size),
    )
    assert np.isnan(ops.convert_to_numpy(result.scores)).all()
