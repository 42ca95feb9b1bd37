"""A model learns from batches, and counts tokens, by its own special ids."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.models import KINDS
from keras_transformer.models.scoring import score
from keras_transformer.models.search import search
from reference.weights import numpy
from reference.weights import randomize

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


@pytest.mark.one_backend
def test_batches_with_another_end_of_the_source_are_refused(pairs):
    model = compiled(**IDS, source_end=False)
    ids = model.config.special_ids
    wrong = kt.data.TokenBatches(pairs, 16, **ids)
    for data in (wrong, wrong.from_step(0)):
        with pytest.raises(InputError, match=r"source_end True, but .* has False; cre"):
            model.fit(data, steps_per_epoch=1, verbose=0)
    model.fit(kt.data.TokenBatches(pairs, 16, source_end=False, **ids), verbose=0)
    with pytest.raises(InputError, match=r"source_end False, but .* has True"):
        compiled(**IDS).fit(
            kt.data.TokenBatches(pairs, 16, source_end=False, **ids), verbose=0
        )


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


#: Reference ids, and those of Marian, of NLLB and of no order at all.
NUMBERINGS = {
    "padding starts, as Marian's": ((0, 0, 1), (8, 8, 0)),
    "the end starts, as NLLB's": ((0, 1, 1), (1, 2, 2)),
    "in no order": ((0, 1, 2), (7, 3, 0)),
}


def learned(kind, ids, places):
    """Logs of a plain `fit`, and then weights, scores and translations.

    Args:
        kind: of the model.
        ids: padding, start and end.
        places: the id of each row of the reference numbering.
    """
    special = dict(zip(("pad_id", "start_id", "end_id"), ids, strict=True))
    sizes = {name: 1 for name in SIZES if name.startswith("num")}
    config = KINDS[kind].config_class(
        vocabulary_size=9, hidden_dim=8, dropout=0.0, **sizes, **special
    )
    keras.utils.set_random_seed(1)
    model = KINDS[kind](config)
    randomize(model)
    for weight in model.weights:
        if weight.shape[0] == 9:
            weight.assign(numpy(weight)[np.argsort(places)])
    rows = TokenRows.from_lists([[places[i] for i in row] for row in ([4, 5, 6], [4])])
    pairs = kt.data.EncodedPairs(rows, rows, special)
    loss = kt.training.LabelSmoothedCrossEntropy()
    metrics = [kt.training.NegativeLogLikelihood(), kt.training.TokenAccuracy()]
    model.compile("sgd", loss, metrics=metrics)
    history = model.fit(kt.data.TokenBatches(pairs, 16), epochs=2, verbose=0)
    inputs, labels, _ = kt.data.TokenBatches(pairs, 16, max_buckets=1)[0]
    source = ops.convert_to_tensor(inputs["source"])
    result = search(
        model,
        source,
        ops.convert_to_tensor(np.full(2, 5, "int32")),
        length=5,
        options=DecodingOptions(beam_size=3),
    )
    back = np.argsort(places)
    return [
        *(np.array(values) for values in history.history.values()),
        *(numpy(w)[places] if w.shape[0] == 9 else numpy(w) for w in model.weights),
        numpy(score(model, source, ops.convert_to_tensor(labels))),
        numpy(result.scores),
        back[numpy(result.tokens)],
    ]


@pytest.mark.one_backend
@pytest.mark.parametrize("numbering", NUMBERINGS)
@pytest.mark.parametrize("kind", KINDS)
def test_what_is_learned_and_found_does_not_depend_on_the_numbers_of_ids(
    kind, numbering
):
    """Nothing takes 0, 1 and 2 for padding, start and end, and nothing hides a start.

    The same pieces under two numberings: losses, gradients, scores, translations.
    """
    reference, ids = NUMBERINGS[numbering]
    places = dict(zip(reference, ids, strict=True))
    rest = iter(set(range(9)) - set(places.values()))
    places = np.array([places[i] if i in places else next(rest) for i in range(9)])
    expected = learned(kind, reference, np.arange(9))
    for found, value in zip(learned(kind, ids, places), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-4, atol=1e-6)


@pytest.mark.one_backend
def test_metrics_that_count_another_padding_than_the_batches_are_refused(pairs):
    model = compiled(**IDS)
    batches = kt.data.TokenBatches(pairs, 16, **IDS)
    loss = kt.training.LabelSmoothedCrossEntropy(0.0, pad_id=0)
    for metrics in (
        [kt.training.TokenAccuracy(pad_id=0)],
        [kt.training.TokenAccuracy()],  # that of the loss
    ):
        model.compile("sgd", loss, metrics=metrics)
        with pytest.raises(InputError, match=r"labels of 0 for padding, .* with 3; le"):
            model.fit(batches, verbose=0)
    model.compile("sgd", loss, metrics=[kt.training.TokenAccuracy(pad_id=3)])
    model.fit(batches, verbose=0)  # whose weights say what counts for the loss
