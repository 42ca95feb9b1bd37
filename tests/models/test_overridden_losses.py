"""What a user's own loss, weights and methods say holds in a fused step as in Keras."""

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import TokenAccuracy
from reference import configs
from reference.models import logits_of
from reference.sizes import VOCABULARY_SIZE
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources
from reference.weights import targets

pytestmark = pytest.mark.one_backend
SOURCE, LABELS = sources(), targets()
TARGET = np.pad(LABELS[:, :-1], ((0, 0), (1, 0)), constant_values=1)
INPUTS = {"source": SOURCE, "target": TARGET}


def small(model_class=kt.Transformer):
    return randomize(model_class(_config()))


def _config():
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return configs.config("paper", dropout=0.0, **layers)


def loss_on_logits(model, loss, weights=None):
    logits = ops.convert_to_tensor(logits_of(model, SOURCE, TARGET))
    return float(numpy(loss(ops.convert_to_tensor(LABELS), logits, weights)))


def evaluated(model, loss, weights=None, **options):
    """The loss of `evaluate`, and of the first step of `fit`."""
    if not model.compiled or options:
        model.compile(optimizer=keras.optimizers.SGD(0.0), loss=loss, **options)
    arguments = {"sample_weight": weights, "batch_size": len(LABELS), "verbose": 0}
    found = model.evaluate(INPUTS, LABELS, return_dict=True, **arguments)["loss"]
    fitted = model.fit(INPUTS, LABELS, **arguments).history["loss"][0]
    np.testing.assert_allclose(fitted, found, rtol=1e-5)
    return found


def mean_logit(y_true, y_pred):
    return ops.mean(y_pred, axis=-1)


@pytest.mark.each_backend
@pytest.mark.parametrize(
    "fused",
    [True, pytest.param(False, marks=pytest.mark.one_backend)],
    ids=["fused", "on logits"],
)
def test_a_weight_a_sentence_in_fit(fused):
    weights = np.array([[0.5], [2.0], [0.0], [1.0], [3.0]], "float32")
    loss = LabelSmoothedCrossEntropy(0.1)
    metrics = None if fused else [keras.metrics.MeanMetricWrapper(mean_logit)]
    model = small()
    found = evaluated(model, loss, weights, metrics=metrics)
    expected = loss_on_logits(model, loss, weights * (LABELS != 0))
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("weights", [None, np.ones((5, 1), "float32")], ids=str)
def test_labels_padded_with_minus_100_in_fit(weights):
    model, expected = small(), LabelSmoothedCrossEntropy(0.1)
    expected = loss_on_logits(model, expected, weights)
    model.compile(
        optimizer=keras.optimizers.SGD(0.1),
        loss=LabelSmoothedCrossEntropy(0.1, pad_id=-100),
        metrics=[TokenAccuracy(pad_id=-100)],
    )
    labels = np.where(LABELS == 0, -100, LABELS)
    arguments = {"sample_weight": weights, "batch_size": 5, "verbose": 0}
    history = model.fit(INPUTS, labels, **arguments).history
    np.testing.assert_allclose(history["loss"][0], expected, rtol=1e-5)
    assert all(np.isfinite(numpy(weight)).all() for weight in model.weights)


class OwnLoss(kt.Transformer):
    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, **kwargs):
        assert y_pred.shape[-1] == VOCABULARY_SIZE
        return 2.0 * super().compute_loss(x, y, y_pred, sample_weight, **kwargs)


class OwnLogits(kt.Transformer):
    def logits(self, hidden):
        return 3.0 * super().logits(hidden)


class OwnCall(kt.Transformer):
    def call(self, inputs, training=None, mask=None):
        return 3.0 + 2.0 * super().call(inputs, training=training)


class FocalLoss(LabelSmoothedCrossEntropy):
    def call(self, y_true, y_pred):
        return ops.square(super().call(y_true, y_pred))


@pytest.mark.parametrize("model_class", [OwnLoss, OwnLogits, OwnCall])
def test_methods_of_a_subclass_get_logits_and_count(model_class):
    loss, model = LabelSmoothedCrossEntropy(0.1), small(model_class)
    with pytest.warns(UserWarning, match=rf"{model_class.__name__}\..*is not fused"):
        model.compile(optimizer=keras.optimizers.SGD(0.0), loss=loss)
    found = evaluated(model, loss)
    factor = 2.0 if model_class is OwnLoss else 1.0
    expected = factor * loss_on_logits(model, loss)
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_the_call_of_a_loss_of_ones_own_counts():
    loss, model = FocalLoss(0.1), small()
    with pytest.warns(UserWarning, match=r"FocalLoss\.call is overridden"):
        model.compile(optimizer=keras.optimizers.SGD(0.0), loss=loss)
    found = evaluated(model, loss)
    np.testing.assert_allclose(found, loss_on_logits(model, loss), rtol=1e-5)
    plain = loss_on_logits(model, LabelSmoothedCrossEntropy(0.1))
    assert abs(found - plain) > 0.1 * plain


def test_added_losses_and_loss_weights_count():
    loss, model = LabelSmoothedCrossEntropy(0.1), small()
    plain = evaluated(model, loss)
    np.testing.assert_allclose(
        evaluated(model, loss, loss_weights=0.25), plain / 4, rtol=1e-5
    )
    kernel = model.encoder_blocks[0].feed_forward.inner_kernel
    kernel.regularizer = keras.regularizers.L2(0.5)
    added = 0.5 * np.square(numpy(kernel)).sum()
    found = evaluated(model, loss, loss_weights=None)
    np.testing.assert_allclose(found, plain + added, rtol=1e-5)


class Nothing(TokenAccuracy):
    def update_state(self, y_true, y_pred, sample_weight=None):
        assert y_pred.shape[-1] == VOCABULARY_SIZE


def test_a_metric_of_ones_own_is_updated_by_its_own_method():
    model = small()
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1), metrics=[Nothing(name="n")])
    found = model.evaluate(INPUTS, LABELS, verbose=0, return_dict=True)
    assert found["n"] == 0.0


class Logits(TokenAccuracy):
    """A metric that needs logits, with which nothing is fused."""

    def update_state(self, y_true, y_pred, sample_weight=None):
        super().update_state(y_true, y_pred, sample_weight)


@pytest.mark.parametrize(
    ("given", "of_loss", "expected"),
    [(None, None, 3), (None, -100, 3), (-100, -100, 3), (4, None, 5)],
)
def test_a_metric_counts_by_its_own_padding_fused_or_not(given, of_loss, expected):
    pad_id = of_loss or 0
    labels = np.array([[4, 5, pad_id], [6, pad_id, pad_id]])
    inputs = {"source": np.full((2, 3), 5), "target": np.full((2, 3), 5)}
    model = small()
    for others in ([], [Logits(of_loss, "other")]):
        metric = TokenAccuracy(given)
        loss = LabelSmoothedCrossEntropy(0.1, of_loss)
        model.compile("sgd", loss, metrics=[metric, *others])
        model.evaluate(inputs, labels, verbose=0)
        assert float(metric.num_tokens) == expected


def test_labels_of_another_length_are_refused_in_fit():
    model = small()
    model.compile(optimizer="sgd", loss=LabelSmoothedCrossEntropy(0.1))
    for method in (model.fit, model.evaluate):
        with pytest.raises(ValueError, match=r"the labels have the shape .* 6\)"):
            method(INPUTS, LABELS[:, :-1], verbose=0)
