"""Word-level distillation: the divergence from a teacher's distribution, fused."""

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

WEIGHT = 0.7
NUM_TOKENS = BATCH * TARGET_LENGTH
LABELS = targets()
HIDDEN = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=1)
MATRIX = 0.5 * normal(VOCABULARY_SIZE, HIDDEN_DIM, seed=2)
BIAS = normal(VOCABULARY_SIZE, seed=3)
# A teacher of another width.
TEACHER = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM + 3, seed=5)
TEACHER_MATRIX = 0.5 * normal(VOCABULARY_SIZE, HIDDEN_DIM + 3, seed=6)
TEACHER_BIAS = normal(VOCABULARY_SIZE, seed=7)
WEIGHTS = np.random.default_rng(4).random(LABELS.shape).astype("float32")
WEIGHTS = WEIGHTS * (LABELS != 0)


def definition(hidden, matrix, bias, temperature):
    """(1 - w) cross-entropy + w τ^2 KL(teacher, student), in float64."""
    logits = hidden.astype("float64") @ matrix.T.astype("float64")
    logits = logits if bias is None else logits + bias
    wanted = TEACHER.astype("float64") @ TEACHER_MATRIX.T.astype("float64")
    wanted = wanted if bias is None else wanted + TEACHER_BIAS
    likelihood = cross_entropy(
        logits.reshape(NUM_TOKENS, -1), LABELS.reshape(-1), 0.1
    ).reshape(LABELS.shape)
    p, q = softmax(wanted / temperature), softmax(logits / temperature)
    divergence = temperature**2 * (p * np.log(p / q)).sum(-1)
    return (WEIGHTS * ((1 - WEIGHT) * likelihood + WEIGHT * divergence)).sum()


def plain(temperature):
    """The same for automatic differentiation."""

    def loss(hidden, matrix, bias=None):
        logits = ops.matmul(hidden, ops.transpose(matrix))
        logits = logits if bias is None else logits + bias
        wanted = TEACHER @ TEACHER_MATRIX.T
        wanted = wanted if bias is None else wanted + TEACHER_BIAS
        p = ops.convert_to_tensor(softmax(wanted / temperature))
        found = ops.log_softmax(logits / temperature)
        divergence = ops.sum(p * (ops.log(p) - found), axis=-1) * temperature**2
        likelihood = LabelSmoothedCrossEntropy(0.1)(LABELS, logits, WEIGHTS)
        divergence = ops.sum(ops.convert_to_tensor(WEIGHTS) * divergence)
        return (1 - WEIGHT) * likelihood + WEIGHT * divergence, ()

    return loss


def fused(temperature, training=True):
    def loss(hidden, matrix, bias=None):
        loss = LabelSmoothedCrossEntropy(
            0.1, distillation=WEIGHT, temperature=temperature
        )
        teacher = TEACHER, TEACHER_MATRIX, None if bias is None else TEACHER_BIAS
        value, statistics = loss.fused(
            hidden,
            matrix,
            bias,
            ops.convert_to_tensor(LABELS),
            WEIGHTS,
            training=training,
            teacher=tuple(
                t if t is None else ops.convert_to_tensor(t) for t in teacher
            ),
        )
        return value, tuple(statistics)

    return loss


@pytest.mark.parametrize(
    ("use_bias", "temperature", "chunk_tokens", "multiple"),
    [
        (True, 2.0, 22, 1),  # chunks with a remainder
        on_one_backend(False, 1.0, 512, 1),  # one chunk
        on_one_backend(True, 1.0, 14, 1),  # chunks without a remainder
        on_one_backend(False, 2.0, 16, 8),  # sizes as on a GPU
    ],
)
def test_loss_and_gradients_are_those_of_the_definition(
    monkeypatch, use_bias, temperature, chunk_tokens, multiple
):
    monkeypatch.setattr(backends, "chunk_tokens", lambda: chunk_tokens)
    monkeypatch.setattr(backends, "product_multiple", lambda: multiple)
    arrays = [HIDDEN, MATRIX, *([BIAS] if use_bias else [])]
    (value, statistics), found = autodiff.of_tensors(fused(temperature), arrays)
    (expected, _), wanted = autodiff.of_tensors(plain(temperature), arrays)
    truth = definition(HIDDEN, MATRIX, BIAS if use_bias else None, temperature)
    np.testing.assert_allclose(expected, truth, rtol=1e-5)
    np.testing.assert_allclose(value, truth, rtol=1e-5)
    assert statistics[2] == (LABELS != 0).sum()
    for got, want in zip(found, wanted, strict=True):
        np.testing.assert_allclose(got, want, atol=1e-5 * np.abs(want).max())


@pytest.mark.one_backend
def test_a_pass_that_does_not_learn_knows_no_teacher():
    arrays = [ops.convert_to_tensor(array) for array in (HIDDEN, MATRIX)]
    value = fused(1.0, training=False)(*arrays)[0]
    labels = ops.convert_to_tensor(LABELS)
    alone = LabelSmoothedCrossEntropy(0.1).fused(
        *arrays, None, labels, WEIGHTS, training=False
    )[0]
    assert float(value) == float(alone)


# === In `fit` ===


def built(seed, **fields):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    keras.utils.set_random_seed(seed)
    return randomize(models.build("pre-norm", **{**layers, **fields}))


def trained(
    weight=1.0, micro_batches=1, epochs=1, teacher=True, packs_rows=False, **options
):
    """The model after a few steps, the logs of `fit`, and the teacher before them."""
    model, before = built(3, dropout=0.01), []
    model.packs_rows = packs_rows
    if teacher:
        model.teacher = built(4)
        before = [numpy(variable).copy() for variable in model.teacher.weights]
    model.compile(
        keras.optimizers.Adam(0.01),
        LabelSmoothedCrossEntropy(0.1, distillation=weight),
        metrics=[NegativeLogLikelihood()],
        **options,
    )
    model.micro_batches = micro_batches
    labels = ids((7, 3, 5, 6, 2, 7, 4, 1), seed=2)
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    inputs = {"source": ids((9, 4, 5, 8, 7, 9, 3, 2), seed=1), "target": target}
    arguments = {"batch_size": 4, "verbose": 0, "epochs": epochs}
    logs = model.fit(inputs, labels, shuffle=False, **arguments).history
    return model, logs, before


def test_a_student_comes_near_its_teacher_which_stays_as_it_is():
    """With the weight 1 the loss is the divergence alone."""
    model, logs, before = trained(epochs=5)
    assert logs["loss"][-1] < 0.7 * logs["loss"][0]
    for variable, value in zip(model.teacher.weights, before, strict=True):
        np.testing.assert_array_equal(numpy(variable), value)
    teacher = {id(variable) for variable in model.teacher.weights}
    assert not teacher & {id(variable) for variable in model.weights}


@pytest.mark.one_backend
def test_a_weight_of_almost_nothing_is_training_without_a_teacher():
    """The same steps, a teacher's passes draw nothing."""
    model, _, _ = trained(weight=1e-9)
    alone, _, _ = trained(weight=0.0, teacher=False)
    for variable, other in zip(model.weights, alone.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-5)


@pytest.mark.one_backend
def test_micro_batches_are_the_whole_batch():
    (found, _, _), (expected, _, _) = (trained(micro_batches=n) for n in (1, 2))
    for variable, other in zip(found.weights, expected.weights, strict=True):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-5)


@pytest.mark.one_backend
def test_what_cannot_be_taught_is_refused():
    with pytest.raises(InputError, match="the model has no teacher; set"):
        trained(teacher=False)
    with pytest.raises(InputError, match="teacher would read each row as one"):
        trained(packs_rows=True)
    with pytest.raises(InputError, match="needs the same tokenizer"):
        built(3).teacher = built(4, vocabulary_size=VOCABULARY_SIZE + 1)


@pytest.mark.one_backend
def test_config_round_trip_and_range():
    loss = LabelSmoothedCrossEntropy(0.1, distillation=WEIGHT, temperature=2.0)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(loss)
    )
    assert again.get_config() == loss.get_config()
    for options, message in (
        ({"distillation": 1.1}, r"distillation must be in \[0, 1\], got 1.1"),
        ({"temperature": 0}, "temperature must be above 0, got 0"),
        ({"distillation": 1, "r_drop": 1}, "does not go with r_drop or simcut"),
    ):
        with pytest.raises(ValueError, match=message):
            LabelSmoothedCrossEntropy(**options)
