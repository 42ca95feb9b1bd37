"""Plain `fit`, `evaluate` and `predict`: the fused loss is the loss on logits."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import NegativeLogLikelihood
from keras_transformer.training import TokenAccuracy
from reference import models
from reference.models import logits_of
from reference.sizes import VOCABULARY_SIZE
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import sources
from reference.weights import targets

STEPS = 3
LOSS = LabelSmoothedCrossEntropy(0.1)


def wants_logits(y_true, y_pred):
    assert y_pred.shape[-1] == VOCABULARY_SIZE
    return ops.mean(y_pred, axis=-1)


def small(name, dtype="float32"):
    """One block of each kind is enough, and quick to compile."""
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return randomize(models.build(name, dtype, dropout=0.0, **layers))


def compiled(name, fused, dtype="float32"):
    """A model with weights of its own; a metric of logits turns the fusion off."""
    model = small(name, dtype)
    metrics = [NegativeLogLikelihood()]
    if not fused:
        metrics.append(keras.metrics.MeanMetricWrapper(wants_logits, name="mean_logit"))
    model.compile(optimizer=keras.optimizers.SGD(0.02), loss=LOSS, metrics=metrics)
    return model


def batches(weighted):
    """3 batches in one: other rows in each, the last row of a batch of weight 0."""
    source, labels = np.tile(sources(), (STEPS, 1)), np.tile(targets(), (STEPS, 1))
    for step in range(STEPS):
        labels[5 * step : 5 * step + 3] = np.roll(labels[:3], step, axis=0)
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    if not weighted:
        return {"source": source, "target": target}, labels, None
    weights = (labels != 0).astype("float32")
    weights[4::5] = 0.0
    weights = weights / weights.reshape(STEPS, -1).sum(axis=1).repeat(5)[:, None]
    return {"source": source, "target": target}, labels, weights


def run(model, weighted):
    """Results of fit, evaluate and predict."""
    inputs, labels, weights = batches(weighted)
    arguments = {"batch_size": 5, "verbose": 0}
    history = model.fit(
        inputs, labels, sample_weight=weights, shuffle=False, **arguments
    ).history
    evaluated = model.evaluate(
        inputs, labels, sample_weight=weights, return_dict=True, **arguments
    )
    results = {
        f"{when} {name}": float(numpy(ops.convert_to_tensor(value)))
        for when, values in (
            ("fit", {name: values[0] for name, values in history.items()}),
            ("evaluate", evaluated),
        )
        for name, value in values.items()
        if name != "mean_logit"
    }
    return results, model.predict(inputs, **arguments)


@pytest.mark.parametrize(
    ("name", "weighted"),
    [
        ("pre-norm, nothing tied", True),
        *(
            pytest.param(*case, marks=pytest.mark.one_backend)
            for case in (
                ("paper", False),
                ("recurrent, nothing tied", True),
                ("convolutional", False),
            )
        ),
    ],
)
def test_fused_and_plain_training_are_one(name, weighted):
    both = [compiled(name, fused) for fused in (True, False)]
    (found, logits), (expected, plain_logits) = (run(m, weighted) for m in both)
    assert set(found) == set(expected) and len(found) == 4
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, err_msg=key)
    start = small(name)
    for variable, plain, old in zip(*(m.weights for m in (*both, start)), strict=True):
        change = numpy(plain) - numpy(old)
        assert np.abs(change).max() > 0, plain.path
        np.testing.assert_allclose(
            numpy(variable) - numpy(old), change, atol=1e-5, err_msg=plain.path
        )
    assert logits.shape == (STEPS * 5, 7, VOCABULARY_SIZE)
    np.testing.assert_allclose(logits, plain_logits, atol=1e-4)
    inputs = batches(weighted)[0]
    called = logits_of(both[0], inputs["source"], inputs["target"])
    np.testing.assert_allclose(called, logits, rtol=1e-5, atol=1e-5)


def test_the_mean_loss_of_batches_counts_tokens_not_rows():
    """However they are divided: rows of one token count as little as they are."""
    model = small("pre-norm, nothing tied")
    loss = LabelSmoothedCrossEntropy(0.0)
    model.compile(loss=loss, metrics=[NegativeLogLikelihood()])
    inputs, labels, _ = batches(weighted=False)
    labels[5:, 1:] = 0  # the first batch of five has nearly all tokens
    for batch_size in (5, 15):
        logs = model.evaluate(
            inputs, labels, batch_size=batch_size, verbose=0, return_dict=True
        )
        np.testing.assert_allclose(logs["loss"], logs["nll"], rtol=1e-5)


@pytest.mark.one_backend
def test_fused_training_in_mixed_precision():
    both = [compiled("pre-norm", fused, "mixed_bfloat16") for fused in (True, False)]
    (found, _), (expected, _) = (run(m, weighted=False) for m in both)
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=0.02, err_msg=key)
    start = small("pre-norm")
    for variable, plain, old in zip(*(m.weights for m in (*both, start)), strict=True):
        if variable.path.endswith("key_bias"):
            continue  # its gradient is rounding alone
        change = numpy(plain) - numpy(old)
        scale = np.abs(change).max()
        found = numpy(variable) - numpy(old)
        assert np.abs(found - change).max() < 0.1 * scale, variable.path


@pytest.mark.one_backend
def test_a_compiled_model_goes_through_a_file(tmp_path):
    """With its optimizer, its loss, and logits under a loss that is fused."""
    model = small("pre-norm, nothing tied")
    model.compile(optimizer=keras.optimizers.Adam(1e-3), loss=LOSS)
    inputs, labels, _ = batches(weighted=False)
    model.fit(inputs, labels, batch_size=5, verbose=0)
    model.save(tmp_path / "model.keras")
    loaded = keras.saving.load_model(tmp_path / "model.keras")
    assert loaded.config == model.config
    assert loaded.dtype_policy == model.dtype_policy
    assert loaded.loss.get_config() == LOSS.get_config()
    assert [v.path for v in loaded.weights] == [v.path for v in model.weights]
    expected = logits_of(model, sources(), targets())
    np.testing.assert_array_equal(logits_of(loaded, sources(), targets()), expected)
    for one in (model, loaded):  # goes on where it was
        one.fit(inputs, labels, batch_size=5, shuffle=False, verbose=0)
    for variable, other in zip(loaded.weights, model.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-6)


LOAD = """
import keras
import keras_transformer.models
print([metric.name for metric in keras.saving.load_model({path!r}).fed_metrics])
"""


@pytest.mark.one_backend
def test_a_fresh_process_knows_the_metrics_of_a_file(tmp_path, run_python):
    model = compiled("paper", fused=True)
    model.optimizer.build(model.trainable_variables)
    model.save(tmp_path / "model.keras")
    output = run_python(LOAD.format(path=str(tmp_path / "model.keras")))
    assert output.splitlines()[-1] == "['nll']"


@pytest.mark.one_backend
def test_each_metric_is_evaluated_once():
    model = small("paper")
    mine = [NegativeLogLikelihood(), TokenAccuracy()]
    kerass = keras.metrics.SparseCategoricalAccuracy()
    model.compile("sgd", LabelSmoothedCrossEntropy(0.1), metrics=[*mine, kerass])
    inputs = {"source": sources(), "target": targets()}
    results = model.evaluate(inputs, targets(), verbose=0)
    named = model.evaluate(inputs, targets(), verbose=0, return_dict=True)
    assert named.keys() == {"loss", "nll", "token_accuracy", kerass.name}
    assert results[0] == named["loss"] and sorted(results) == sorted(named.values())


def test_other_losses_get_logits():
    model = small("paper")
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer="sgd", loss=loss)
    inputs = {"source": sources(), "target": ids((7,) * 5, seed=3)}
    labels = ids((7,) * 5, seed=4)
    expected = logits_of(model, inputs["source"], inputs["target"])
    found = model.evaluate(inputs, labels, verbose=0)
    np.testing.assert_allclose(
        found, numpy(loss(labels, ops.convert_to_tensor(expected))), rtol=1e-5
    )


@pytest.mark.one_backend("jax")
def test_keras_wraps_no_state_at_a_step():
    """What each step sets must still be there, under that name."""
    kinds = []

    class Noting(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            kinds.append(type(vars(model)["_jax_state"]))

    model = compiled("pre-norm", fused=True)
    inputs, labels, _ = batches(weighted=False)
    model.fit(inputs, labels, batch_size=15, verbose=0, callbacks=[Noting()])
    assert kinds == [dict]


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="traces of TensorFlow"
)
def test_the_first_step_is_traced_once(monkeypatch):
    """Though Keras lets it create the variables of the optimizer."""
    step, traces = backends.train_step, []

    def counted(*arguments):
        traces.append(1)
        return step(*arguments)

    monkeypatch.setattr(backends, "train_step", counted)
    model = small("paper")
    model.compile(optimizer=keras.optimizers.Adam(), loss=LOSS)
    inputs, labels, _ = batches(False)
    model.fit(inputs, labels, batch_size=5, verbose=0)
    assert len(traces) == 1
