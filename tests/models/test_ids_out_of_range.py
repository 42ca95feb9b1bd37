"""Ids, labels and positions outside of a model's tables never give a plausible loss."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from reference import configs
from reference.sizes import VOCABULARY_SIZE
from reference.weights import sources
from reference.weights import targets

SOURCE, TARGET = sources(), targets()


class Dataset(keras.utils.PyDataset):
    def __init__(self, *batch):
        super().__init__()
        self.batch = batch

    def __len__(self):
        return 2

    def __getitem__(self, index):
        return self.batch


def small(**fields):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = kt.Transformer(configs.config("paper", **layers, **fields))
    model.compile(optimizer="sgd", loss=LabelSmoothedCrossEntropy(0.1))
    return model


def spoiled(what, wrong):
    arrays = {"source": SOURCE.copy(), "target": TARGET.copy(), "labels": TARGET.copy()}
    arrays[what][1, 0] = wrong
    return {side: arrays[side] for side in ("source", "target")}, arrays["labels"]


@pytest.mark.parametrize(
    ("what", "wrong"),
    [
        ("labels", VOCABULARY_SIZE),
        *(
            pytest.param(*case, marks=pytest.mark.one_backend)
            for case in (
                ("source", -1),
                ("source", VOCABULARY_SIZE),
                ("target", VOCABULARY_SIZE),
                ("labels", -1),
            )
        ),
    ],
)
def test_ids_out_of_the_vocabulary_are_refused_before_the_step(what, wrong):
    model = small()
    inputs, labels = spoiled(what, wrong)
    before = model.get_weights()
    message = f"{what} holds the id {wrong}, outside of the vocabulary"

    def generator():
        while True:
            yield inputs, labels

    right = ({"source": SOURCE, "target": TARGET}, TARGET)
    options = {"verbose": 0, "batch_size": 5}
    calls = [
        lambda: model.fit(inputs, labels, **options),
        lambda: model.evaluate(inputs, labels, **options),
        lambda: model.fit(*right, validation_data=(inputs, labels), **options),
        lambda: model.fit(Dataset(inputs, labels), verbose=0),
        lambda: model.fit(generator(), steps_per_epoch=1, shuffle=False, verbose=0),
        lambda: model.train_on_batch(inputs, labels),
        lambda: model.test_on_batch(inputs, labels),
    ]
    if what != "labels":
        calls.append(lambda: model.predict(inputs, **options))
        calls.append(lambda: model.predict_on_batch(inputs))
    for call in calls:
        with pytest.raises(InputError, match=message):
            call()
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.parametrize(
    "what", ["source", pytest.param("labels", marks=pytest.mark.one_backend)]
)
def test_ids_of_a_tensorflow_dataset_are_refused_before_the_step(what):
    tf = pytest.importorskip("tensorflow")
    model = small()
    wrong = tf.data.Dataset.from_tensors(spoiled(what, VOCABULARY_SIZE))
    before = model.get_weights()
    message = f"{what} holds the id {VOCABULARY_SIZE}, outside of the vocabulary"
    with pytest.raises(InputError, match=message):
        model.fit(wrong, shuffle=False, verbose=0)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)
    if what == "source":
        with pytest.raises(InputError, match=message):
            model.predict(wrong.map(lambda inputs, labels: inputs), verbose=0)


def test_a_tensorflow_dataset_gives_the_batches_that_its_arrays_give():
    tf = pytest.importorskip("tensorflow")
    model = small()
    batch = ({"source": SOURCE, "target": TARGET}, TARGET, np.float32(TARGET != 0))
    dataset = tf.data.Dataset.from_tensor_slices(batch).batch(2)
    found = model.evaluate(dataset, verbose=0)
    expected = model.evaluate(
        *batch[:2], sample_weight=batch[2], batch_size=2, verbose=0
    )
    assert found == pytest.approx(expected, rel=1e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize("inputs", [Dataset, None], ids=["batches", "arrays"])
def test_labels_of_another_length_are_refused_before_the_step(inputs):
    model = small()
    data = ({"source": SOURCE, "target": TARGET}, TARGET[:, :-1])
    arguments = data if inputs is None else (inputs(*data),)
    with pytest.raises(ValueError, match=r"the labels have the shape \(5, 6\)"):
        model.fit(*arguments, verbose=0)


@pytest.mark.one_backend
def test_more_positions_than_were_learned_are_refused_before_the_step():
    model = small(position="learned", max_sequence_length=8)
    longer = np.tile(SOURCE[:, :3], (1, 3))
    for data in (
        {"source": longer, "target": TARGET},
        {"source": TARGET, "target": longer},
    ):
        with pytest.raises(InputError, match=r"has 9 positions, .* learned 8"):
            model.fit(Dataset(data, longer), verbose=0)
