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
        with pytest.raises(InputError, match=r"has 9 positions, .* 8 learned"):
            model.fit(Dataset(data, longer), verbose=0)


ONE_HOT = np.eye(VOCABULARY_SIZE, dtype="float32")[TARGET]
RIGHT = {"source": SOURCE, "target": TARGET}
WEIGHT_A_SENTENCE = np.ones(len(TARGET), "float32")
REFUSED = {
    "list inputs": (([SOURCE, TARGET], TARGET), "the inputs are of the type list"),
    "one array": ((TARGET, TARGET), "the inputs are of the type ndarray"),
    "a side is a list": (
        ({"source": SOURCE.tolist(), "target": TARGET}, TARGET),
        "source is of the type list",
    ),
    "one axis": (({"source": SOURCE[:, 0], "target": TARGET}, TARGET), r"shape \(5,\)"),
    "rows that differ": (
        ({"source": SOURCE[1:], "target": TARGET}, TARGET),
        "source has 4 sentences and target 5",
    ),
    "text": (
        ({"source": SOURCE.astype("str"), "target": TARGET}, TARGET),
        "source holds text, not ids",
    ),
    "forgotten labels": ((RIGHT,), "there are no labels"),
    "short labels": ((RIGHT, TARGET[:, 1:]), r"labels have the shape \(5, 6\)"),
    "one-hot labels": ((RIGHT, ONE_HOT), r"labels have the shape \(5, 7, 53\)"),
    "fractions": ((RIGHT, TARGET + 0.5), "labels holds 4?[0-9].5, but an id is"),
    "a list of labels": ((RIGHT, TARGET.tolist()), "the labels are of the type list"),
    "a weight a sentence": (
        (RIGHT, TARGET, WEIGHT_A_SENTENCE),
        r"sample_weight has the shape \(5,\) .* one for each sentence in .*\(5, 1\)",
    ),
}


@pytest.fixture(scope="module")
def model_of_module():
    return small()


@pytest.mark.parametrize("name", REFUSED)
def test_data_of_another_form_are_refused_in_one_sentence(name, model_of_module):
    """Before the first step, on each way in; nothing of Keras stands around it."""
    model = model_of_module
    data, message = REFUSED[name]
    names = ("x", "y", "sample_weight")
    arguments = dict(zip(names, data, strict=False))
    before = model.get_weights()
    calls = [
        lambda: model.fit(**arguments, verbose=0),
        lambda: model.evaluate(**arguments, verbose=0),
        lambda: model.fit(RIGHT, TARGET, validation_data=data, verbose=0),
        lambda: model.fit(Dataset(*data), verbose=0),
        lambda: model.train_on_batch(*data),
        lambda: model.test_on_batch(*data),
    ]
    if len(data) == 1:
        calls.pop(2)  # Keras takes a tuple of one for something else
        calls.pop(2)  # and a batch of one for inputs
    for call in calls:
        with pytest.raises(ValueError, match=message) as caught:
            call()
        assert "\n" not in str(caught.value)
    for weight, old in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(weight, old)


@pytest.mark.one_backend
def test_a_loss_of_ones_own_may_do_without_labels():
    class Copies(kt.Transformer):
        def compute_loss(self, x=None, y=None, y_pred=None, *arguments, **options):
            return keras.ops.mean(keras.ops.square(y_pred))

    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    model = Copies(configs.config("paper", **layers))
    model.compile(optimizer="sgd", loss="mse")
    assert np.isfinite(model.train_on_batch(RIGHT))


@pytest.mark.one_backend
def test_a_call_refuses_a_list_of_inputs(model_of_module):
    with pytest.raises(ValueError, match="the inputs are of the type list"):
        model_of_module([SOURCE, TARGET])


@pytest.mark.one_backend
def test_labels_of_a_metric_are_ids_too_and_classes_have_no_weight():
    model = small()
    inputs, labels = spoiled("labels", -1)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True, ignore_class=-1)
    metric = kt.training.NegativeLogLikelihood(pad_id=0)
    model.compile("sgd", loss, metrics=[metric])
    with pytest.raises(InputError, match="labels holds the id -1, outside of the vo"):
        model.evaluate(inputs, labels, verbose=0)
    model.compile("sgd", loss, metrics=[kt.training.NegativeLogLikelihood(pad_id=-1)])
    model.evaluate(inputs, labels, verbose=0)
    with pytest.raises(InputError, match="class_weight is for one label a row"):
        model.fit(inputs, labels, class_weight={0: 2.0}, verbose=0)
