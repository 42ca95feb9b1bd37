"""Each kind of model against its NumPy reference, for every option."""

import numpy as np
import pytest

from reference import configs
from reference import models
from reference import numpy_other_kinds
from reference import numpy_transformer
from reference.marks import all_on_one_backend
from reference.sizes import SOURCE_LENGTHS
from reference.sizes import TARGET_LENGTHS
from reference.weights import ids
from reference.weights import read

REFERENCES = {
    "transformer": numpy_transformer.transformer,
    "recurrent": numpy_other_kinds.recurrent,
    "convolutional": numpy_other_kinds.convolutional,
}


#: Which between them have every kind of layer.
ON_ALL = ("pre-norm, nothing tied", "window", "recurrent", "convolutional, dilated")


@pytest.mark.parametrize(
    "name", all_on_one_backend((*configs.OPTIONS, *configs.OTHERS), but=ON_ALL)
)
def test_model_is_the_reference(name):
    """A padded batch gives what each pair gives alone and unpadded."""
    config = configs.config(name)
    model = models.model(name)
    assert model.count_params() == config.num_weights
    source = ids(SOURCE_LENGTHS, seed=1, pad_id=config.pad_id)
    target = ids(TARGET_LENGTHS, seed=2, pad_id=config.pad_id)
    logits = models.logits_of(model, source, target)
    assert logits.dtype == "float32"
    assert logits.shape == (*target.shape, config.target_vocabulary_size)
    weights = read(model)
    for row, (source_length, length) in enumerate(
        zip(SOURCE_LENGTHS, TARGET_LENGTHS, strict=True)
    ):
        expected = REFERENCES[config.kind](
            config, weights, source[row, :source_length], target[row, :length]
        )
        found = logits[row, :length]
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
        assert np.abs(expected).max() > 0.1  # 1e-5 of something


def test_the_options_of_the_small_models_cover_the_config():
    """An option added to the config must be added to a small model."""
    used = {field for options in configs.OPTIONS.values() for field in options}
    apart = {
        "dropout",  # tests of training alone
        "attention_dropout",
        "activation_dropout",
        "source_end",  # says what the data holds
        "target_vocabulary_size",  # that of vocabulary_size
    }
    fields = set(type(configs.config("paper")).model_fields)
    assert used | set(configs.SMALL) | apart == fields
