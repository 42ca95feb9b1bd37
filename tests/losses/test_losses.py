"""The loss against its definition, and its fused form against the plain one."""

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.losses import token_losses
from keras_transformer.metrics import NegativeLogLikelihood
from reference import autodiff
from reference.marks import on_one_backend
from reference.numpy_layers import softmax
from reference.numpy_transformer import cross_entropy
from reference.sizes import BATCH
from reference.sizes import HIDDEN_DIM
from reference.sizes import TARGET_LENGTH
from reference.sizes import VOCABULARY_SIZE
from reference.weights import normal
from reference.weights import numpy
from reference.weights import targets

NUM_TOKENS = BATCH * TARGET_LENGTH
LABELS = targets()
LOGITS = 3.0 * normal(BATCH, TARGET_LENGTH, VOCABULARY_SIZE, seed=1)
HIDDEN = normal(BATCH, TARGET_LENGTH, HIDDEN_DIM, seed=2)
MATRIX = 0.5 * normal(VOCABULARY_SIZE, HIDDEN_DIM, seed=3)
BIAS = normal(VOCABULARY_SIZE, seed=4)
WEIGHTS = np.random.default_rng(5).random((BATCH, TARGET_LENGTH)).astype("float32")
WEIGHTS = WEIGHTS * (LABELS != 0)
WEIGHTS[1] = 0.0  # a row that fills up the batch


# === Definition ===


@pytest.mark.one_backend
@pytest.mark.parametrize("label_smoothing", [0.0, 0.1, 0.6])
def test_loss_is_the_cross_entropy_against_smoothed_labels(label_smoothing):
    expected = cross_entropy(
        LOGITS.reshape(NUM_TOKENS, -1).astype("float64"),
        LABELS.reshape(-1),
        label_smoothing,
    ).reshape(LABELS.shape)
    loss = LabelSmoothedCrossEntropy(label_smoothing)
    tensors = ops.convert_to_tensor(LABELS), ops.convert_to_tensor(LOGITS)
    found = numpy(loss.call(*tensors))
    np.testing.assert_allclose(found, expected, rtol=1e-5)
    tokens = LABELS != 0
    mean = expected[tokens].mean()
    np.testing.assert_allclose(numpy(loss(*tensors)), mean, rtol=1e-6)
    total = (WEIGHTS * expected).sum()
    np.testing.assert_allclose(numpy(loss(*tensors, WEIGHTS)), total, rtol=1e-6)


@pytest.mark.one_backend
def test_labels_may_be_floats_as_keras_makes_them():
    loss = LabelSmoothedCrossEntropy(0.1)
    expected = numpy(loss(ops.convert_to_tensor(LABELS), ops.convert_to_tensor(LOGITS)))
    labels = ops.convert_to_tensor(LABELS.astype("float32"))
    assert numpy(loss(labels, ops.convert_to_tensor(LOGITS))) == expected


@pytest.mark.parametrize("floatx", ["float16", "bfloat16"])
def test_labels_are_not_rounded_where_keras_floats_are_of_half_the_precision(
    monkeypatch, floatx
):
    monkeypatch.setattr(keras.backend, "floatx", lambda: floatx)
    monkeypatch.setattr(keras.src.backend, "floatx", lambda: floatx)
    labels, logits = np.array([[2049]]), np.zeros((1, 1, 2050), "float32")
    logits[..., 2049] = 3.0
    loss = LabelSmoothedCrossEntropy(0.0)
    found = numpy(loss(ops.convert_to_tensor(labels), ops.convert_to_tensor(logits)))
    np.testing.assert_allclose(found, np.log(2049 + np.exp(3)) - 3, rtol=1e-5)


@pytest.mark.one_backend
def test_likelihood_is_not_smoothed_and_ties_count_as_right():
    logits = LOGITS.copy()
    logits[0, 0] = 0.0
    logits[0, 1, LABELS[0, 1]] = 99.0
    _, log_likelihoods, right = map(
        numpy, token_losses(ops.convert_to_tensor(logits), LABELS, 0.1)
    )
    probabilities = softmax(logits.astype("float64"))
    expected = np.log(np.take_along_axis(probabilities, LABELS[..., None], -1))[..., 0]
    np.testing.assert_allclose(log_likelihoods, expected, rtol=1e-5, atol=1e-6)
    assert right[0, 0] == right[0, 1] == 1
    others = np.arange(NUM_TOKENS) > 1
    best = (logits.argmax(axis=-1) == LABELS).reshape(-1)
    np.testing.assert_array_equal(right.reshape(-1)[others], best[others])


def test_loss_is_finite_and_exact_for_huge_logits():
    loss = LabelSmoothedCrossEntropy(0.1)
    found = loss.call(
        ops.convert_to_tensor(LABELS), ops.convert_to_tensor(1e4 * LOGITS)
    )
    assert np.isfinite(numpy(found)).all()


def test_loss_is_float32_for_logits_of_half_the_precision():
    logits = ops.cast(ops.convert_to_tensor(LOGITS), "bfloat16")
    loss = LabelSmoothedCrossEntropy(0.1)
    found = numpy(loss.call(ops.convert_to_tensor(LABELS), logits))
    rounded = ops.convert_to_tensor(numpy(logits))
    expected = numpy(loss.call(ops.convert_to_tensor(LABELS), rounded))
    np.testing.assert_array_equal(found, expected)


@pytest.mark.one_backend
def test_config_round_trip():
    loss = LabelSmoothedCrossEntropy(0.2, pad_id=3, name="loss")
    serialized = keras.saving.serialize_keras_object(loss)
    assert serialized["registered_name"] == (
        "keras_transformer>LabelSmoothedCrossEntropy"
    )
    again = keras.saving.deserialize_keras_object(serialized)
    assert again.get_config() == loss.get_config()


@pytest.mark.one_backend
@pytest.mark.parametrize("label_smoothing", [-0.1, 1.0])
def test_smoothing_outside_its_range_is_refused(label_smoothing):
    with pytest.raises(ValueError, match=rf"in \[0, 1\), got {label_smoothing}"):
        LabelSmoothedCrossEntropy(label_smoothing)


# === Padding, weights and shapes ===


@pytest.mark.parametrize("wrong", [-1, -100, VOCABULARY_SIZE])
def test_a_label_that_is_neither_id_nor_padding_is_seen_in_the_loss(wrong):
    """On every backend, also where it would be an index from the end."""
    labels = LABELS.copy()
    labels[0, 0] = wrong
    tensors = ops.convert_to_tensor(labels), ops.convert_to_tensor(LOGITS)
    losses = numpy(token_losses(tensors[1], tensors[0], 0.1, 0)[0])
    assert np.isnan(losses[0, 0]) and np.isfinite(np.delete(losses.ravel(), 0)).all()
    loss = LabelSmoothedCrossEntropy(0.1)
    assert np.isnan(numpy(loss(*tensors)))
    metric = NegativeLogLikelihood()
    metric.update_state(*tensors)
    assert np.isnan(numpy(metric.result()))
    arrays = [ops.convert_to_tensor(array) for array in (HIDDEN, MATRIX, BIAS)]
    fused, statistics = loss.fused(*arrays, tensors[0])
    assert np.isnan(numpy(fused)) and np.isnan(numpy(statistics.log_likelihood))


@pytest.mark.parametrize("pad_id", [-100, VOCABULARY_SIZE])
@pytest.mark.parametrize(
    "weights", [None, WEIGHTS, WEIGHTS + 1.0], ids=["mean", "weights", "everywhere"]
)
def test_padding_that_is_no_id_indexes_nothing_and_weighs_nothing(pad_id, weights):
    labels = np.where(LABELS == 0, pad_id, LABELS)
    loss = LabelSmoothedCrossEntropy(0.1, pad_id=pad_id)
    masked = None if weights is None else weights * (LABELS != 0)

    def gradients(loss, labels, weights):
        def function(*tensors):
            value, statistics = loss.fused(*tensors, None, labels, weights)
            return value, tuple(statistics)

        labels = ops.convert_to_tensor(labels)
        return autodiff.of_tensors(function, [HIDDEN, MATRIX])

    expected = gradients(LabelSmoothedCrossEntropy(0.1), LABELS, masked)
    found = gradients(loss, labels, weights)
    for got, wanted in zip(
        keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5, atol=1e-6)
    logits = ops.matmul(HIDDEN, MATRIX.T)
    unfused = numpy(loss(ops.convert_to_tensor(labels), logits, weights))
    np.testing.assert_allclose(unfused, found[0][0], rtol=1e-5)
    metric = NegativeLogLikelihood(pad_id=pad_id)
    metric.update_state(ops.convert_to_tensor(labels), logits)
    log_likelihood, _, num_tokens = found[0][1]
    mean = -log_likelihood / num_tokens
    np.testing.assert_allclose(numpy(metric.result()), mean, rtol=1e-5)


def test_padding_has_no_weight_whatever_is_given():
    """A weight of 1 for each token, as Keras' own losses would count them."""
    loss = LabelSmoothedCrossEntropy(0.1)
    given = np.ones(LABELS.shape, "float32")
    masked = (LABELS != 0).astype("float32")
    expected, found = both(loss, masked, True), both(loss, given, True)
    for got, wanted in zip(
        keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_a_weight_a_sentence_is_that_of_each_of_its_tokens():
    weights = np.array([[0.5], [2.0], [0.0], [1.0], [3.0]], "float32")
    each = weights * (LABELS != 0)
    loss = LabelSmoothedCrossEntropy(0.1)
    expected, found = both(loss, each, True), both(loss, weights, True)
    for got, wanted in zip(
        keras.tree.flatten(found), keras.tree.flatten(expected), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


@pytest.mark.one_backend
@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (WEIGHTS[:, 0], r"shape \(5,\) and the labels \(5, 7\); .* \(5, 1\)"),
        (WEIGHTS[:, :-1], r"shape \(5, 6\) and the labels \(5, 7\)"),
        (WEIGHTS[:1, :1], r"shape \(1, 1\) and the labels \(5, 7\)"),
        (WEIGHTS[..., None], r"shape \(5, 7, 1\) and the labels \(5, 7\)"),
    ],
    ids=["a row", "a column less", "one", "three axes"],
)
def test_weights_of_another_shape_are_refused_in_one_sentence(weights, message):
    loss, labels = LabelSmoothedCrossEntropy(0.1), ops.convert_to_tensor(LABELS)
    with pytest.raises(ValueError, match=message):
        loss(labels, ops.convert_to_tensor(LOGITS), weights)
    with pytest.raises(ValueError, match=message):
        loss.fused(ops.convert_to_tensor(HIDDEN), MATRIX, None, labels, weights)


@pytest.mark.one_backend
@pytest.mark.parametrize("labels", [LABELS[:, :-1], LABELS[..., None], LABELS[:1]])
def test_labels_of_another_shape_are_refused_in_one_sentence(labels):
    loss, labels = LabelSmoothedCrossEntropy(0.1), ops.convert_to_tensor(labels)
    message = (
        r"the labels have the shape .* labels of the shape \(5, 7\); give one label"
    )
    with pytest.raises(ValueError, match=message):
        loss(labels, ops.convert_to_tensor(LOGITS))
    with pytest.raises(ValueError, match=message):
        loss.fused(ops.convert_to_tensor(HIDDEN), MATRIX, None, labels)


# === Fused ===


def plain(loss, hidden, matrix, bias, weights):
    """Loss and statistics from logits that exist, for automatic differentiation."""
    logits = ops.matmul(hidden, ops.transpose(ops.cast(matrix, hidden.dtype)))
    logits = ops.cast(logits, "float32")
    logits = logits if bias is None else logits + bias
    value = loss(ops.convert_to_tensor(LABELS), logits, weights)
    _, log_likelihoods, right = token_losses(ops.stop_gradient(logits), LABELS)
    mask = ops.cast(loss.pad_id != LABELS, "float32")
    terms = (mask * log_likelihoods, mask * right, mask)
    return value, tuple(ops.sum(term) for term in terms)


def fused(loss, hidden, matrix, bias, weights):
    value, statistics = loss.fused(
        hidden, matrix, bias, ops.convert_to_tensor(LABELS), weights
    )
    return value, tuple(statistics)


def both(loss, weights, use_bias, dtype="float32"):
    """(outputs, gradients) of the plain and of the fused loss."""

    def of(form):
        def function(hidden, matrix, bias=None):
            value, statistics = form(
                loss, ops.cast(hidden, dtype), matrix, bias, weights
            )
            return 3.0 * value, (value, *statistics)  # whatever comes after the loss

        arrays = [HIDDEN, MATRIX, *([BIAS] if use_bias else [])]
        return autodiff.of_tensors(function, arrays)

    return of(plain), of(fused)


@pytest.mark.parametrize("use_bias", [on_one_backend(False), True])
@pytest.mark.parametrize("weights", [None, WEIGHTS], ids=["mean", "weights"])
@pytest.mark.parametrize(
    ("chunk_tokens", "multiple"),
    [
        on_one_backend(512, 1),  # one chunk
        (11, 1),  # chunks with a remainder
        on_one_backend(7, 1),  # chunks without
        on_one_backend(16, 8),  # sizes as on a GPU, of all but hidden states
    ],
)
def test_fused_loss_and_gradients_are_the_plain_ones(
    monkeypatch, chunk_tokens, multiple, weights, use_bias
):
    assert (NUM_TOKENS % 11, NUM_TOKENS % 7) == (2, 0)
    monkeypatch.setattr(backends, "chunk_tokens", lambda: chunk_tokens)
    monkeypatch.setattr(backends, "product_multiple", lambda: multiple)
    expected, found = both(LabelSmoothedCrossEntropy(0.1), weights, use_bias)
    for got, wanted in zip(
        keras.tree.flatten(found[0]), keras.tree.flatten(expected[0]), strict=True
    ):
        np.testing.assert_allclose(got, wanted, rtol=1e-5)
    for got, wanted in zip(found[1], expected[1], strict=True):
        assert got.dtype == wanted.dtype and got.shape == wanted.shape
        np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())


@pytest.mark.parametrize(
    ("dtype", "close"), [("bfloat16", 2e-2), ("float16", 3e-3)], ids=["bf16", "f16"]
)
def test_fused_loss_in_mixed_precision(dtype, close):
    expected, found = both(LabelSmoothedCrossEntropy(0.1), None, True, dtype)
    np.testing.assert_allclose(found[0][0], expected[0][0], rtol=1e-3)
    for got, wanted in zip(found[1], expected[1], strict=True):
        assert got.dtype == wanted.dtype == "float32"
        np.testing.assert_allclose(got, wanted, atol=close * np.abs(wanted).max())


def test_fused_loss_without_smoothing_and_with_another_padding():
    loss = LabelSmoothedCrossEntropy(0.0, pad_id=int(LABELS[0, 0]))
    expected, found = both(loss, None, False)
    np.testing.assert_allclose(found[0][0], expected[0][0], rtol=1e-5)
    np.testing.assert_allclose(found[0][1], expected[0][1], rtol=1e-5)
    for got, wanted in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(got, wanted, atol=1e-5 * np.abs(wanted).max())


def test_rows_of_weight_0_have_no_gradient():
    _, found = both(LabelSmoothedCrossEntropy(0.1), WEIGHTS, True)
    hidden_gradient = found[1][0]
    assert (hidden_gradient[WEIGHTS == 0] == 0).all()
    assert (np.abs(hidden_gradient).max(axis=-1)[WEIGHTS > 0] > 0).all()


def test_evaluation_needs_no_gradients_and_gives_the_same():
    loss = LabelSmoothedCrossEntropy(0.1)
    arguments = [
        ops.convert_to_tensor(array) for array in (HIDDEN, MATRIX, BIAS, LABELS)
    ]
    trained, evaluated = (
        keras.tree.map_structure(
            numpy, loss.fused(*arguments, WEIGHTS, training=training)
        )
        for training in (True, False)
    )
    np.testing.assert_allclose(
        keras.tree.flatten(evaluated), keras.tree.flatten(trained), rtol=1e-6
    )


@pytest.mark.parametrize("r_drop", [0.0, 3.0])
def test_fused_loss_of_shapes_known_only_when_it_runs(r_drop):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("only TensorFlow has shapes that are not known when it traces")
    import tensorflow as tf

    loss = LabelSmoothedCrossEntropy(0.1, r_drop=r_drop)
    passes = 2 if r_drop else 1
    hidden = np.concatenate([HIDDEN, HIDDEN[::-1]])

    def values(hidden, labels):
        with tf.GradientTape() as tape:
            tape.watch(hidden)
            value, statistics = loss.fused(hidden, MATRIX, BIAS, labels)
        return value, tuple(statistics), tape.gradient(value, hidden)

    states = tf.TensorSpec((None, None, HIDDEN_DIM), tf.float32)
    labels = tf.TensorSpec((None, None), tf.int32)
    program = tf.function(values, input_signature=[states, labels])
    for rows in (BATCH, 1, 0):
        tensors = tf.constant(hidden[: passes * rows]), tf.constant(LABELS[:rows])
        value, statistics, gradient = program(*tensors)
        if not rows:  # an empty replica
            assert value == statistics[2] == 0 and gradient.shape[0] == 0
            continue
        expected, wanted, slope = values(*tensors)
        np.testing.assert_allclose(value, expected, rtol=1e-5)
        np.testing.assert_allclose(statistics, wanted, rtol=1e-5)
        np.testing.assert_allclose(gradient, slope, atol=1e-6)
