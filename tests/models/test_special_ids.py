"""A model learns from batches, and counts tokens, by its own special ids."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.errors import InputError

SIZES = {"hidden_dim": 8, "num_encoder_layers": 1, "num_decoder_layers": 1}
IDS = {"pad_id": 3, "start_id": 1, "end_id": 0}


@pytest.fixture(scope="module")
def pairs():
    rows = TokenRows.from_lists([[5, 6, 7], [8]])
    return kt.data.EncodedPairs(rows, rows)


def compiled(**ids):
    keras.utils.set_random_seed(1)
    config = kt.TransformerConfig(
        vocabulary_size=9, intermediate_dim=8, dropout=0.0, **SIZES, **ids
    )
    model = kt.Transformer(config)
    loss = kt.training.LabelSmoothedCrossEntropy(0.0)
    model.compile("sgd", loss, metrics=[kt.training.NegativeLogLikelihood()])
    return model


@pytest.mark.one_backend
def test_batches_of_other_special_ids_are_refused(pairs):
    model, batches = compiled(**IDS), kt.data.TokenBatches(pairs, 16)
    for data in (batches, batches.from_step(0)):
        for call in (model.fit, model.evaluate):
            with pytest.raises(InputError, match=r"'pad_id': 0.*'pad_id': 3"):
                call(data, verbose=0)
            with pytest.raises(InputError, match=r"create TokenBatches with \*\*model"):
                call(x=data, verbose=0)
    right = kt.data.TokenBatches(pairs, 16, **model.config.special_ids)
    with pytest.raises(InputError, match="'pad_id': 0"):
        model.fit(right, validation_data=batches, verbose=0)


def test_loss_and_metrics_count_what_is_no_padding_of_the_model(pairs):
    """The same text under two numberings of the ids has the same likelihood."""
    found = []
    for ids in ({"pad_id": 0, "start_id": 1, "end_id": 2}, IDS):
        model = compiled(**ids)
        zeros = [np.zeros(weight.shape) for weight in model.weights]
        model.set_weights(zeros)  # all ids are equally likely
        batches = kt.data.TokenBatches(pairs, 16, max_buckets=1, **ids)
        inputs, labels, _ = batches[0]
        found.append(model.evaluate(inputs, labels, verbose=0, return_dict=True))
        assert float(model.fed_metrics[0].num_tokens) == 6
    for logs in found:
        assert logs == pytest.approx({"loss": np.log(9), "nll": np.log(9)}, rel=1e-5)


@pytest.mark.one_backend
def test_a_loss_belongs_to_models_of_one_padding():
    loss = kt.training.LabelSmoothedCrossEntropy()
    assert loss.get_config()["pad_id"] is None
    first, second = compiled(**IDS), compiled()
    first.compile("sgd", loss)
    assert loss.pad_id == loss.get_config()["pad_id"] == 3
    with pytest.raises(InputError, match="belongs to a model with pad_id 3"):
        second.compile("sgd", loss)
    given = kt.training.LabelSmoothedCrossEntropy(pad_id=7)
    second.compile("sgd", given)
    assert given.pad_id == 7
