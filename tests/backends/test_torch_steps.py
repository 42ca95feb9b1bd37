"""Training steps that PyTorch traces: the same numbers, a graph for each shape."""

import os
import warnings

import keras
import numpy as np
import pytest

from keras_transformer import losses
from keras_transformer import metrics
from reference import models
from reference import sizes
from reference.weights import randomize

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("traces of PyTorch", allow_module_level=True)

from torch.utils._python_dispatch import TorchDispatchMode  # noqa: E402

from keras_transformer.backends import torch_steps  # noqa: E402

KINDS = ["recurrent", "convolutional"][: 2 if os.environ.get("EVERY_TEST") else 1]
#: Rows, S and T of batches that take turns.
SHAPES = [(4, 6, 5), (2, 9, 7)]
#: As small as can be: tracing takes seconds a layer.
LAYERS = {"num_encoder_layers": 1, "num_decoder_layers": 1}


def batch(rows, S, T, seed=0):
    generator = np.random.default_rng(seed)

    def ids(length):
        return generator.integers(4, sizes.VOCABULARY_SIZE, (rows, length), "int32")

    labels = ids(T)
    labels[0, 3:] = 0
    weights = (labels != 0).astype("float32")
    return {"source": ids(S), "target": ids(T)}, labels, weights / weights.sum()


def trained(
    kind="paper",
    traced=True,
    parts=1,
    steps=3,
    shapes=SHAPES,
    distillation=0.0,
    **fields,
):
    """A model after some steps, and the logs of the last one."""
    keras.utils.set_random_seed(3)
    model = randomize(models.build(kind, **LAYERS, **fields))
    if distillation:
        model.teacher = randomize(models.build(kind, **LAYERS), seed=1)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-2, global_clipnorm=1.0),
        loss=losses.LabelSmoothedCrossEntropy(0.1, distillation=distillation),
        metrics=[metrics.TokenAccuracy(), metrics.GradientNorm()],
        jit_compile=traced,
    )
    model.micro_batches = parts
    logs = {}
    for number in range(steps):
        logs = model.train_on_batch(
            *batch(*shapes[number % len(shapes)], seed=number), return_dict=True
        )
    return model, logs


def assert_same(found, expected):
    (one, logs), (other, other_logs) = found, expected
    assert logs.keys() == other_logs.keys()
    for name, value in logs.items():
        np.testing.assert_allclose(value, other_logs[name], rtol=2e-5)
    for variable, wanted in zip(one.variables, other.variables, strict=True):
        np.testing.assert_allclose(
            keras.ops.convert_to_numpy(variable.value),
            keras.ops.convert_to_numpy(wanted.value),
            atol=2e-5,
            err_msg=variable.path,
        )


def test_a_traced_step_is_the_step():
    """With dropout, whose seeds are states, metrics, and a graph for each shape."""
    dropout = {"dropout": 0.3, "attention_dropout": 0.2}
    found = trained(**dropout)
    assert found[0]._traced_steps.num_graphs == len(SHAPES)
    assert_same(found, trained(traced=False, **dropout))


@pytest.mark.parametrize("kind", KINDS)
def test_so_is_that_of_every_other_kind(kind):
    fields = {"kind": kind, "steps": 2, "shapes": SHAPES[:1], "dropout": 0.2}
    assert_same(trained(**fields), trained(traced=False, **fields))


@pytest.mark.parametrize("distillation", [0.0, 0.5])
def test_micro_batches_are_traced_as_they_are_run(distillation):
    fields = {"parts": 2, "steps": 1, "dropout": 0.2, "distillation": distillation}
    assert_same(trained(**fields), trained(traced=False, **fields))


class Compiler:
    """A backend of `torch.compile` that counts; it may fail."""

    def __init__(self, fault=None):
        self.count = 0
        self.fault = fault

    def __call__(self, module, inputs):
        self.count += 1
        if self.fault:
            raise NotImplementedError(self.fault)
        return module.forward


def test_each_shape_is_compiled_once(monkeypatch):
    compiler = Compiler()
    monkeypatch.setitem(torch_steps.COMPILERS, "cpu", compiler)
    found = trained(steps=3)
    assert compiler.count == len(SHAPES)
    assert_same(found, trained(traced=False, steps=3))


def test_where_compiling_fails_the_step_runs_without(monkeypatch):
    monkeypatch.setitem(torch_steps.COMPILERS, "cpu", Compiler("no such kernel"))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        found = trained(steps=1)
    assert any("no such kernel" in str(warning.message) for warning in told)
    assert_same(found, trained(traced=False, steps=1))


def test_a_step_without_weights_counts_its_own_tokens():
    """Whose number is computed outside of what is traced."""
    ends = []
    for traced in (True, False):
        model, _ = trained(traced=traced, steps=1)
        for number in range(2):
            inputs, labels, _ = batch(*SHAPES[0], seed=number)
            labels[1:, 1 + number :] = 0
            logs = model.train_on_batch(inputs, labels, return_dict=True)
        ends.append((model, logs))
    assert_same(*ends)
    assert ends[0][0]._traced_steps.num_graphs == 2  # with weights, and without


def test_compiling_the_model_again_traces_it_again():
    model, _ = trained(steps=1)
    model.compile(optimizer="sgd", loss=losses.LabelSmoothedCrossEntropy(0.1))
    assert "_traced_steps" not in vars(model) and not model.traces_steps


class Counted(TorchDispatchMode):
    """Counts the operations that PyTorch starts."""

    count = 0

    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        self.count += 1
        return function(*arguments, **(options or {}))


def test_the_optimizer_starts_as_many_operations_for_more_weights():
    """One over all of them, not one a weight: on a GPU each is a kernel."""
    counts = []
    for layers in (1, 3):
        model = models.build("paper", num_encoder_layers=layers)
        optimizer = keras.optimizers.Adam(1e-2)
        optimizer.build(model.trainable_variables)
        gradients = [torch.ones_like(v.value) for v in model.trainable_variables]
        with torch.no_grad(), Counted() as counted:
            optimizer.apply(gradients, model.trainable_variables)
        counts.append(counted.count)
    assert counts[0] == counts[1] < 60
