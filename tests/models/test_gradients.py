"""Micro-batches, clipping and the gradient's norm on one device."""

from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training import GradientNorm
from keras_transformer.training import InverseSquareRoot
from keras_transformer.training import NegativeLogLikelihood
from reference import models
from reference.weights import ids
from reference.weights import numpy
from reference.weights import randomize

STEPS, ROWS = 3, 12


def small(name="paper", dropout=0.0, **options):
    layers = {"num_encoder_layers": 1, "num_decoder_layers": 1}
    return randomize(models.build(name, dropout=dropout, **layers, **options))


def batches():
    """Rows of very different lengths, so that parts hold different tokens."""
    source = ids((9,) * ROWS * STEPS, seed=1)
    labels = ids((7,) * ROWS * STEPS, seed=2)
    lengths = np.tile([7, 1, 2, 6, 1, 1], ROWS * STEPS // 6)
    labels = np.where(np.arange(7) < lengths[:, None], labels, 0).astype("int32")
    target = np.pad(labels[:, :-1], ((0, 0), (1, 0)), constant_values=1)
    mask = (labels != 0).astype("float32").reshape(STEPS, -1)
    weights = mask / mask.sum(axis=1, keepdims=True)
    return {"source": source, "target": target}, labels, weights.reshape(labels.shape)


def batch(step):
    rows = slice(step * ROWS, (step + 1) * ROWS)
    return keras.tree.map_structure(lambda array: array[rows], batches())


def wants_logits(y_true, y_pred):
    return ops.mean(y_pred, axis=-1)


def run(micro_batches, weighted=True, fused=True, name="paper", **optimizer):
    model = small(name)
    metrics = [NegativeLogLikelihood(), GradientNorm()]
    if not fused:
        metrics.append(keras.metrics.MeanMetricWrapper(wants_logits, name="mean_logit"))
    model.compile(
        # Its epsilon keeps gradients of the size of rounding errors small.
        optimizer=keras.optimizers.Adam(
            InverseSquareRoot(16, warmup_steps=2, scale=0.1), epsilon=1e-3, **optimizer
        ),
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=metrics,
    )
    model.micro_batches = micro_batches
    inputs, labels, weights = batches()
    history = model.fit(
        inputs,
        labels,
        sample_weight=weights if weighted else None,
        batch_size=ROWS,
        shuffle=False,
        verbose=0,
    ).history
    logs = {key: float(values[0]) for key, values in history.items()}
    return model, logs


@pytest.mark.parametrize(
    ("weighted", "fused", "name", "optimizer"),
    [
        (True, True, "paper", {"global_clipnorm": 0.5}),
        pytest.param(
            *(False, True, "pre-norm, nothing tied", {"use_ema": True}),
            marks=pytest.mark.one_backend,
        ),
        pytest.param(
            *(False, False, "paper", {"clipnorm": 0.1}), marks=pytest.mark.one_backend
        ),
    ],
)
def test_micro_batches_equal_the_whole_batch(weighted, fused, name, optimizer):
    (whole, expected), (parts, found) = (
        run(count, weighted, fused, name, **optimizer) for count in (1, 3)
    )
    assert whole._fused == parts._fused == fused
    assert found.keys() == expected.keys()
    for key, value in expected.items():
        np.testing.assert_allclose(found[key], value, rtol=1e-5, err_msg=key)
    assert int(numpy(parts.optimizer.iterations)) == STEPS
    start = small(name)
    for variable, other, old in zip(
        parts.weights, whole.weights, start.weights, strict=True
    ):
        assert np.abs(numpy(other) - numpy(old)).max() > 0, other.path
        np.testing.assert_allclose(
            numpy(variable), numpy(other), atol=1e-6, err_msg=other.path
        )
    for variable, other in zip(
        parts.optimizer.variables, whole.optimizer.variables, strict=True
    ):
        np.testing.assert_allclose(numpy(variable), numpy(other), atol=1e-6)


def one_step(**optimizer):
    """What one step of size 1 changes, and the norm that it reports."""
    model = small("pre-norm, nothing tied")
    start = [numpy(weight) for weight in model.trainable_weights]
    model.compile(
        optimizer=keras.optimizers.SGD(1.0, **optimizer),
        loss=LabelSmoothedCrossEntropy(0.1),
        metrics=[GradientNorm()],
    )
    inputs, labels, weights = batch(0)
    logs = model.train_on_batch(inputs, labels, weights, return_dict=True)
    evaluated = model.evaluate(inputs, labels, verbose=0, return_dict=True)
    assert evaluated.keys() == {"loss"}
    ends = [numpy(weight) for weight in model.trainable_weights]
    change = np.concatenate([(a - b).ravel() for a, b in zip(start, ends, strict=True)])
    return change, logs["gradient_norm"]


@pytest.mark.one_backend
def test_the_norm_is_that_of_the_gradient_before_clipping():
    change, norm = one_step()
    np.testing.assert_allclose(norm, np.linalg.norm(change), rtol=1e-4)
    clipped, same = one_step(global_clipnorm=float(norm) / 4)
    np.testing.assert_allclose(same, norm, rtol=1e-6)
    np.testing.assert_allclose(clipped, change / 4, atol=1e-6)
    _, unscaled = one_step(loss_scale_factor=64.0)
    np.testing.assert_allclose(unscaled, norm, rtol=1e-5)


def test_a_gradient_that_is_not_finite_leaves_the_mean_alone():
    metric = GradientNorm()
    assert float(numpy(metric.result())) == 0.0
    for norm in (3.0, float("inf"), float("nan"), 5.0):
        metric.update_norm(ops.convert_to_tensor(norm))
    metric.update_state(None, None)
    assert float(numpy(metric.result())) == 4.0


DROPOUT = {"dropout": 0.3, "attention_dropout": 0.2, "activation_dropout": 0.1}


def run_with_dropout(counts, r_drop=0.0):
    """A model that took a step with each of the numbers of micro-batches."""
    keras.utils.set_random_seed(5)
    model = small(num_heads=1, **DROPOUT)  # rows of attention are no whole words
    model.compile(
        keras.optimizers.SGD(0.1, momentum=0.5),
        LabelSmoothedCrossEntropy(r_drop=r_drop),
        metrics=[NegativeLogLikelihood()],
    )
    for step, count in enumerate(counts):
        model.micro_batches = count
        model.train_on_batch(*batch(step))
    return model


@pytest.mark.parametrize(
    ("r_drop", "counts"),
    [
        pytest.param(0.0, (3, 6, 1), marks=pytest.mark.one_backend),
        (2.0, (3, 1)),  # each number is a program
    ],
)
def test_micro_batches_drop_what_the_whole_batch_drops(r_drop, counts):
    """In each step, and where their number changes from one to the next."""
    whole, parts = (
        run_with_dropout(numbers, r_drop) for numbers in ((1,) * len(counts), counts)
    )
    start = small(num_heads=1, **DROPOUT)
    for variable, other in zip(parts.variables, whole.variables, strict=True):
        if other.path.endswith("seed_generator_state"):
            np.testing.assert_array_equal(numpy(variable), numpy(other))
        elif "metric" not in other.path:
            np.testing.assert_allclose(
                numpy(variable), numpy(other), rtol=0, atol=1e-6, err_msg=other.path
            )
    for variable, old in zip(parts.trainable_weights, start.weights, strict=True):
        assert np.abs(numpy(variable) - numpy(old)).max() > 1e-4, variable.path


@pytest.mark.one_backend
def test_a_run_of_parts_that_draw_anew_goes_on_so():
    """As it was begun: each part draws from seeds of its own."""
    model = run_with_dropout([1])
    seed = model.dropout_seeds[0]
    before = numpy(seed)[1]
    model.draws_by_row = False
    model.micro_batches = 3
    model.train_on_batch(*batch(1))
    assert numpy(seed)[1] == before + 3


def test_what_cannot_be_split_is_refused():
    model = small()
    for wrong in (0, -1, 2.0, True, "2"):
        with pytest.raises(InputError, match="micro_batches must be a positive number"):
            model.micro_batches = wrong
    inputs, labels, _ = batches()
    model.compile("sgd", LabelSmoothedCrossEntropy())
    model.micro_batches = 5
    message = "cannot be split into micro_batches 5|a multiple of micro_batches 5"
    with pytest.raises(Exception, match=message) as caught:
        model.fit(inputs, labels, batch_size=ROWS, verbose=0)
    assert backends.name == "tensorflow" or caught.type is InputError
    model = small()  # Keras leaves one of JAX without values where `fit` fails
    model.micro_batches = 5
    model.compile("sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True))
    with pytest.raises(InputError, match="needs the loss LabelSmoothedCrossEntropy"):
        model.fit(inputs, labels, batch_size=ROWS, verbose=0)


MEASURE = """
import numpy as np
import keras
from keras_transformer.config import TransformerConfig
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.models import Transformer

def peak():
    # Not ru_maxrss: a process inherits the peak of the one that started it.
    status = open("/proc/self/status").read()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

def mean_logit(labels, logits):  # makes the model hold the logits
    return keras.ops.mean(logits, axis=-1)

def batch(length):
    ids = np.random.default_rng(0).integers(4, 37_000, (6, length))
    return {"source": ids[:, :8], "target": ids}, ids

config = TransformerConfig(
    vocabulary_size=37_000, hidden_dim=16, intermediate_dim=8, num_heads=2,
    num_encoder_layers=1, num_decoder_layers=1, dropout=0.0)
# The whole batch comes last: what the process has held once stays its peak.
for micro_batches in (6, 1):
    model = Transformer(config)
    model.compile(
        "sgd", LabelSmoothedCrossEntropy(),
        metrics=[keras.metrics.MeanMetricWrapper(mean_logit)])
    model.micro_batches = micro_batches
    model.train_on_batch(*batch(1))  # libraries and optimizer are there
    begin = peak() if micro_batches > 1 else begin
    model.train_on_batch(*batch(512))
    print(peak() - begin)
"""


@pytest.mark.one_backend("jax")
@pytest.mark.slow
def test_memory_is_that_of_one_micro_batch(run_python):
    if not Path("/proc/self/status").exists():
        pytest.skip("needs Linux, which tells the memory")
    environment = {"JAX_DISABLE_MOST_OPTIMIZATIONS": "0"}  # XLA as it is used
    parts, whole = map(float, run_python(MEASURE, env=environment).splitlines()[-2:])
    assert parts < whole / 2, f"{parts:.0f} MiB of {whole:.0f} MiB"
