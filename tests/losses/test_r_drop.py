"""R-Drop: two passes of each sentence under dropout, drawn together by the loss."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import NegativeLogLikelihood
from reference import autodiff
from reference import models
from reference.marks import chunks_of_pairs
from reference.marks import on_one_backend
from reference.numpy_layers import softmax
from reference.numpy_transformer import cross_entropy
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import TARGET_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import ids
from reference.weights import normal
from reference.weights import numpy
from reference.weights import randomize
from reference.weights import targets

ALPHA = 3.0
NUM_TOKENS = BATCH * TARGET_LENGTH
LABELS = targets()
HIDDEN = normal(2 * BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=1)
MATRIX = 0.5 * normal(VOCABULARY_SIZE, HIDDEN_DIM, seed=2)
BIAS = normal(VOCABULARY_SIZE, seed=3)
WEIGHTS = np.random.default_rng(4).random(LABELS.shape).astype("float32")
WEIGHTS = WEIGHTS * (LABELS != 0)


def definition(hidden, matrix, bias, weights):
    """The paper's equations 2 to 4 with KL in full, in float64."""
    logits = hidden.astype("float64") @ matrix.T.astype("float64")
    logits = logits if bias is None else logits + bias
    first, second = logits[0::2], logits[1::2]
    likelihood = sum(
        cross_entropy(each.reshape(NUM_TOKENS, -1), LABELS.reshape(-1), 0.1).reshape(
            LABELS.shape
        )
        for each in (first, second)
    )
    p, q = softmax(first), softmax(second)
    both_ways = (p * np.log(p / q) + q * np.log(q / p)).sum(-1)
    return (weights * (likelihood / 2 + ALPHA / 4 * both_ways)).sum()


def plain(hidden, matrix, bias=None):
    """The same for automatic differentiation."""
    logits = ops.matmul(hidden, ops.transpose(matrix))
    logits = logits if bias is None else logits + bias
    loss = LabelSmoothedCrossEntropy(0.1)
    first, second = logits[0::2], logits[1::2]
    likelihood = loss(LABELS, first, WEIGHTS) + loss(LABELS, second, WEIGHTS)
    p, q = ops.softmax(first), ops.softmax(second)
    ratio = ops.log_softmax(first) - ops.log_softmax(second)
    weights = ops.convert_to_tensor(WEIGHTS)
    return likelihood / 2 + ALPHA / 4 * ops.sum(
        weights * ops.sum((p - q) * ratio, axis=-1)
    )


def fused(hidden, matrix, bias=None, weights=WEIGHTS):
    loss = LabelSmoothedCrossEntropy(0.1, r_drop=ALPHA)
    value, statistics = loss.fused(
        hidden, matrix, bias, ops.convert_to_tensor(LABELS), weights
    )
    return value, tuple(statistics)


@pytest.mark.parametrize("use_bias", [on_one_backend(False), True])
@chunks_of_pairs
def test_loss_and_gradients_are_those_of_the_definition(
    monkeypatch, chunk_tokens, multiple, use_bias
):
    assert (NUM_TOKENS % 11, NUM_TOKENS % 7) == (2, 0)
    monkeypatch.setattr(backends, "chunk_tokens", lambda: chunk_tokens)
    monkeypatch.setattr(backends, "product_multiple", lambda: multiple)
    arrays = [HIDDEN, MATRIX, *([BIAS] if use_bias else [])]
    (value, statistics), found = autodiff.of_tensors(fused, arrays)
    (expected, _), wanted = autodiff.of_tensors(plain, arrays)
    truth = definition(HIDDEN, MATRIX, BIAS if use_bias else None, WEIGHTS)
    np.testing.assert_allclose(expected, truth, rtol=1e-5)
    np.testing.assert_allclose(value, truth, rtol=1e-5)
    assert statistics[2] == 2 * (LABELS != 0).sum()
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


def test_without_weights_it_is_the_mean_over_tokens():
    mask = LABELS != 0
    tensors = [ops.convert_to_tensor(array) for array in (HIDDEN, MATRIX)]
    value, _ = fused(*tensors, weights=None)
    expected = definition(HIDDEN, MATRIX, None, mask / mask.sum())
    np.testing.assert_allclose(numpy(value), expected, rtol=1e-5)


def test_two_equal_passes_leave_the_cross_entropy():
    twice = ops.convert_to_tensor(np.repeat(HIDDEN[::2], 2, axis=0))
    once = ops.convert_to_tensor(HIDDEN[::2])
    matrix, labels = map(ops.convert_to_tensor, (MATRIX, LABELS))
    found, _ = fused(twice, matrix)
    expected, _ = LabelSmoothedCrossEntropy(0.1).fused(
        once, matrix, None, labels, WEIGHTS
    )
    np.testing.assert_allclose(numpy(found), numpy(expected), rtol=1e-6)


# === In `fit` ===


def trained(r_drop, dropout, micro_batches=1):
    """The model after a few steps, the logs of `fit`, and those of `evaluate`."""
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    keras.utils.set_random_seed(3)
    model = randomize(models.build("pre-norm", dropout=dropout, **layers))
    model.compile(
        keras.optimizers.SGD(0.02),
        LabelSmoothedCrossEntropy(0.1, r_drop=r_drop),
        metrics=[NegativeLogLikelihood()],
    )
    model.micro_batches = micro_batches
    labels = ids((7, 3, 5, 6, 2, 7, 4, 1), seed=2)
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    inputs = {"source": ids((9, 4, 5, 8, 7, 9, 3, 2), seed=1), "target": target}
    arguments = {"batch_size": 4, "verbose": 0}
    logs = model.fit(inputs, labels, shuffle=False, **arguments).history
    evaluated = model.evaluate(inputs, labels, return_dict=True, **arguments)
    return model, {name: values[0] for name, values in logs.items()}, evaluated


@pytest.mark.one_backend  # `test_gradients.py` fits with it on each
def test_without_dropout_training_is_the_same():
    (found, logs, ends), (expected, wanted, results) = (
        trained(r_drop, dropout=0.0) for r_drop in (ALPHA, 0.0)
    )
    for name, value in {**wanted, **results}.items():
        np.testing.assert_allclose({**logs, **ends}[name], value, rtol=1e-5)
    for variable, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-6)


@pytest.mark.one_backend
def test_the_two_passes_drop_different_units():
    (_, one, evaluated), (_, other, _) = (
        trained(r_drop, dropout=0.3) for r_drop in (1e-6, ALPHA)
    )
    assert other["loss"] > one["loss"] + 0.01  # the divergence
    # `evaluate` drops nothing, and knows nothing of a second pass.
    assert abs(evaluated["loss"] - evaluated["nll"]) < 1.0


@pytest.mark.one_backend
def test_micro_batches_are_the_whole_batch():
    models_and_logs = [trained(ALPHA, 0.0, micro_batches=n) for n in (1, 2)]
    (found, _, _), (expected, _, _) = models_and_logs
    for variable, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-6)


def mean_logit(labels, logits):
    return ops.mean(logits, axis=-1)


@pytest.mark.parametrize(
    ("dtype", "metrics", "reason"),
    [
        ("float32", [mean_logit], "the metrics .*mean_logit"),
        ("mixed_float16", None, "float16"),
    ],
)
def test_what_needs_all_logits_is_refused(dtype, metrics, reason):
    model = models.build("paper", dtype)
    loss = LabelSmoothedCrossEntropy(0.1, r_drop=ALPHA)
    with pytest.raises(InputError, match=f"needs the fused loss, which {reason}"):
        model.compile("sgd", loss, metrics=metrics)


@pytest.mark.one_backend
def test_config_round_trip_and_range():
    loss = LabelSmoothedCrossEntropy(0.1, r_drop=ALPHA)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    assert again.get_config() == loss.get_config() and again.r_drop == ALPHA
    with pytest.raises(ValueError, match="r_drop must be 0 or more, got -1"):
        LabelSmoothedCrossEntropy(r_drop=-1)
