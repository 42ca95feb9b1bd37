"""SimCut: a second pass with some embeddings cut, drawn towards the first."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.layers.token_cutoff import cut_tokens
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


def definition(hidden, matrix, bias):
    """The cross-entropy of the first pass plus α KL(first, second), in float64."""
    logits = hidden.astype("float64") @ matrix.T.astype("float64")
    logits = logits if bias is None else logits + bias
    first, second = logits[0::2], logits[1::2]
    likelihood = cross_entropy(
        first.reshape(NUM_TOKENS, -1), LABELS.reshape(-1), 0.1
    ).reshape(LABELS.shape)
    p, q = softmax(first), softmax(second)
    divergence = (p * np.log(p / q)).sum(-1)
    return (WEIGHTS * (likelihood + ALPHA * divergence)).sum()


def plain(hidden, matrix, bias=None):
    """The same for automatic differentiation, through both passes."""
    logits = ops.matmul(hidden, ops.transpose(matrix))
    logits = logits if bias is None else logits + bias
    first, second = logits[0::2], logits[1::2]
    likelihood = LabelSmoothedCrossEntropy(0.1)(LABELS, first, WEIGHTS)
    ratio = ops.log_softmax(first) - ops.log_softmax(second)
    divergence = ops.sum(ops.softmax(first) * ratio, axis=-1)
    weights = ops.convert_to_tensor(WEIGHTS)
    return likelihood + ALPHA * ops.sum(weights * divergence)


def fused(hidden, matrix, bias=None):
    loss = LabelSmoothedCrossEntropy(0.1, simcut=ALPHA)
    labels = ops.convert_to_tensor(LABELS)
    value, statistics = loss.fused(hidden, matrix, bias, labels, WEIGHTS)
    return value, tuple(statistics)


@pytest.mark.parametrize("use_bias", [on_one_backend(False), True])
@chunks_of_pairs
def test_loss_and_gradients_are_those_of_the_definition(
    monkeypatch, chunk_tokens, multiple, use_bias
):
    monkeypatch.setattr(backends, "chunk_tokens", lambda: chunk_tokens)
    monkeypatch.setattr(backends, "product_multiple", lambda: multiple)
    arrays = [HIDDEN, MATRIX, *([BIAS] if use_bias else [])]
    (value, statistics), found = autodiff.of_tensors(fused, arrays)
    (expected, _), wanted = autodiff.of_tensors(
        lambda *tensors: (plain(*tensors), ()), arrays
    )
    truth = definition(HIDDEN, MATRIX, BIAS if use_bias else None)
    np.testing.assert_allclose(expected, truth, rtol=1e-5)
    np.testing.assert_allclose(value, truth, rtol=1e-5)
    assert statistics[2] == (LABELS != 0).sum()  # of the first pass alone
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


def test_whole_tokens_of_the_second_pass_are_cut():
    vectors = ops.ones((400, 25, 3))
    may_cut = np.ones((400, 25), bool)
    may_cut[:, 0] = False
    seeds = keras.random.SeedGenerator(7)
    found = numpy(cut_tokens(vectors, ops.convert_to_tensor(may_cut), 0.1, seeds))
    assert set(np.unique(found)) == {0.0, 1.0}
    np.testing.assert_array_equal(found, found[..., :1].repeat(3, axis=-1))
    assert found[0::2].all()
    assert found[1::2, 0].all()
    share = 1 - found[1::2, 1:, 0].mean()
    assert abs(share - 26 / 256) < 0.02
    again = numpy(cut_tokens(vectors, ops.convert_to_tensor(may_cut), 0.1, seeds))
    assert (found != again).any()


# === In `fit` ===


def trained(simcut=ALPHA, probability=0.3, micro_batches=1):
    """The model after a few steps, the logs of `fit`, and those of `evaluate`."""
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    keras.utils.set_random_seed(3)
    model = randomize(models.build("pre-norm", dropout=0.01, **layers))
    model.compile(
        keras.optimizers.SGD(0.02),
        LabelSmoothedCrossEntropy(0.1, simcut=simcut, simcut_probability=probability),
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


@pytest.mark.one_backend
def test_the_more_is_cut_the_more_the_passes_differ():
    _, much, evaluated = trained()
    _, little, _ = trained(probability=1e-3)
    assert much["loss"] > little["loss"] + 0.1
    # `evaluate` cuts nothing, and knows nothing of a second pass.
    assert abs(evaluated["loss"] - evaluated["nll"]) < 1.0


@pytest.mark.one_backend
def test_micro_batches_are_the_whole_batch():
    (found, _, _), (expected, _, _) = (trained(micro_batches=n) for n in (1, 2))
    for variable, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("paper", {"dropout": 0.0}, r"simcut needs dropout; set model\.dropout"),
        ("recurrent", {}, "simcut is for a Transformer, not for a Recurrent"),
    ],
)
def test_models_that_cannot_be_cut_are_refused(name, fields, message):
    with pytest.raises(InputError, match=message):
        models.build(name, **fields).compile(
            "sgd", LabelSmoothedCrossEntropy(0.1, simcut=ALPHA)
        )


@pytest.mark.one_backend
def test_config_round_trip_and_range():
    loss = LabelSmoothedCrossEntropy(0.1, simcut=ALPHA, simcut_probability=0.1)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    assert again.get_config() == loss.get_config()
    for options, message in (
        ({"simcut": -1}, "simcut must be 0 or more, got -1"),
        ({"simcut_probability": 1}, "simcut_probability must be between 0 and 1"),
        ({"simcut": 1, "r_drop": 1}, "both pass each sentence twice"),
    ):
        with pytest.raises(ValueError, match=message):
            LabelSmoothedCrossEntropy(**options)
