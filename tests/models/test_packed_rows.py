"""Packing: rows of several sentences give the loss and gradients of the sentences."""

import keras
import numpy as np
import pytest

from keras_transformer.data import EncodedPairs
from keras_transformer.data import PackedBatches
from keras_transformer.data import TokenBatches
from keras_transformer.data import TokenRows
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import NegativeLogLikelihood
from reference import configs
from reference import models
from reference.marks import on_one_backend
from reference.weights import numpy
from reference.weights import randomize

READS_ON = {
    "window": "attention_window",
    "learned, deep encoder": "attention_window",
    "ssru": "the decoder ssru",
    "ssru, pre-norm": "the decoder ssru",
    "deep, additive, unlike sides": "'rotary_halves' and additive attention",
}
PACKED = [name for name in configs.OPTIONS if name not in READS_ON]
ONE_LAYER = {"num_encoder_layers": 1, "num_decoder_layers": 1}
# Longest pair 4 + 1 with its end; rows of 12 hold two to five of them.
SOURCES = [[5, 6, 7, 8], [9], [10, 11], [6, 6], [7, 12, 8], [13], [4, 14]]
TARGETS = [[15, 16], [5, 8, 9, 10], [4], [11, 7, 6], [5, 5], [12, 13, 14], [6]]
LENGTH = 12


def trained(name, packed, micro_batches=1, **fields):
    """Loss, token metric and weights after a step of SGD on all pairs."""
    model = randomize(models.build(name, dropout=0.0, **ONE_LAYER, **fields))
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=[NegativeLogLikelihood()],
    )
    pairs = EncodedPairs(*map(TokenRows.from_lists, (SOURCES, TARGETS)))
    options = {"rows_multiple_of": micro_batches, **model.config.special_ids}
    if packed:
        model.packs_rows = True
        batches = PackedBatches(pairs, 100, length=LENGTH, **options)
        assert batches.num_rows == 2
    else:
        batches = TokenBatches(pairs, 100, max_buckets=1, **options)
    assert len(batches) == 1
    model.micro_batches = micro_batches
    history = model.fit(batches, epochs=1, shuffle=False, verbose=0).history
    evaluated = model.evaluate(batches, verbose=0, return_dict=True)
    logs = {**{name: values[0] for name, values in history.items()}, "after": evaluated}
    return logs, [numpy(weight) for weight in model.trainable_weights]


def assert_equal(name, **options):
    (logs, weights), (expected_logs, expected) = (
        trained(name, packed, **options) for packed in (True, False)
    )
    flat, expected_flat = (keras.tree.flatten(one) for one in (logs, expected_logs))
    np.testing.assert_allclose(flat, expected_flat, rtol=1e-5)
    for weight, expected_weight in zip(weights, expected, strict=True):
        np.testing.assert_allclose(weight, expected_weight, rtol=0, atol=1e-5)


@pytest.mark.parametrize("name", [on_one_backend("paper"), "as T5"])
def test_a_training_step_is_that_of_the_sentences(name):
    assert_equal(name)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", [name for name in PACKED if name != "paper"])
def test_each_option_of_the_model(name):
    assert_equal(name)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("paper", {"position": "learned", "max_sequence_length": LENGTH}),
        ("other special ids", {"start_id": 1}),  # padding, as in Marian
        ("paper", {"start_id": 2}),  # the end, as in NLLB
    ],
)
def test_learned_positions_and_the_ids_of_other_toolkits(name, fields):
    assert_equal(name, **fields)


@pytest.mark.one_backend
def test_micro_batches():
    assert_equal("paper", micro_batches=2)


@pytest.mark.one_backend
@pytest.mark.parametrize(("name", "part"), READS_ON.items())
def test_a_model_that_reads_on_is_refused(name, part):
    with pytest.raises(InputError, match=part):
        models.build(name).packs_rows = True


@pytest.mark.one_backend
def test_a_model_that_is_not_told_refuses_packed_batches():
    model = models.build("paper")
    model.compile(loss=LabelSmoothedCrossEntropy(0.1))
    pairs = EncodedPairs(*map(TokenRows.from_lists, (SOURCES, TARGETS)))
    batches = PackedBatches(pairs, length=LENGTH)
    for data in (batches, batches.from_step(0)):
        with pytest.raises(InputError, match=r"set model\.packs_rows = True"):
            model.fit(data, steps_per_epoch=1, verbose=0)
