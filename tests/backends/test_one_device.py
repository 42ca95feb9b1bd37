"""Nothing that is computed on a GPU meets a tensor on the processor, without a GPU.

Fake tensors have a shape and a device, and raise where devices are mixed, as CUDA does.
"""

import contextlib
import ctypes
import functools
from pathlib import Path

import keras
import numpy as np
import pytest
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer import losses
from keras_transformer import metrics
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding import search_loop
from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.models import Ensemble
from keras_transformer.models import scoring
from keras_transformer.models import search as searches
from reference import models
from reference import sizes

torch = pytest.importorskip("torch")
if keras.backend.backend() != "torch":
    pytest.skip("fake tensors are PyTorch's", allow_module_level=True)

from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

from keras_transformer.backends import torch as backend  # noqa: E402
from keras_transformer.backends import torch_tracing  # noqa: E402

GPU = "cuda:0"
STEPS = 4  # of each loop
KINDS = ("paper", "learned, deep encoder", "recurrent", "convolutional")
OPTIONS = {
    "greedy": {},
    "greedy with rules": {
        "min_length": 2,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.4,
        "suppressed_tokens": (5, 8),
    },
    "beam": {"beam_size": 3, "top_beams": 2, "patience": 1.5},
    "beam with coverage": {"beam_size": 3, "coverage_penalty": 0.2},
    "groups": {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "samples": {"sampling": True, "top_k": 5, "top_p": 0.9, "temperature": 0.7},
}


def allow_fake_gpu():
    """Lets a build of PyTorch without CUDA index fake CUDA tensors."""
    if not torch.backends.cuda.is_built():
        # Its table of what switches devices has nothing for CUDA: the entry of "meta",
        # which switches nothing, does.
        library = Path(torch.__file__).parent / "lib" / "libc10.so"
        name = "_ZN3c104impl26device_guard_impl_registryE"
        try:
            guards = (ctypes.c_void_p * 20).in_dll(ctypes.CDLL(str(library)), name)
        except (OSError, ValueError):
            pytest.skip("needs a PyTorch that indexes fake CUDA tensors")
        cuda, meta = 1, 14  # c10::DeviceType
        guards[cuda] = guards[cuda] or guards[meta]


@pytest.fixture
def gpu(monkeypatch):
    """The context in which tensors are made on a GPU that is not there."""
    allow_fake_gpu()
    # The tracer computes with small constants itself.
    module = torch.fx.experimental.proxy_tensor
    monkeypatch.setattr(module, "CONSTANT_NUMEL_LIMIT", 0)
    # What a fake tensor holds is not known: all constants of a shape count as equal.
    monkeypatch.setattr(torch_tracing, "_bytes", lambda tensor: b"")
    monkeypatch.setattr(keras.src.backend.torch.numpy, "full", full)
    monkeypatch.setattr(keras.src.backend.torch.numpy, "repeat", repeat)
    monkeypatch.setattr(keras.src.backend.torch.math, "segment_sum", segment_sum)
    monkeypatch.setattr(backends, "loop", loop)

    @contextlib.contextmanager
    def on_gpu():
        with FakeTensorMode(allow_non_fake_inputs=True), keras.device(GPU):
            yield

    return on_gpu


# Those of Keras make a tensor of a number, and read it again.


def full(shape, fill_value, dtype=None):
    dtype = keras.src.backend.torch.core.to_torch_dtype(dtype)
    return torch.full(tuple(shape), fill_value, dtype=dtype, device=GPU)


def repeat(x, repeats, axis=None):
    return torch.repeat_interleave(x, repeats, dim=axis)


def segment_sum(data, segment_ids, num_segments, sorted=False):
    sums = data.new_zeros((num_segments, *data.shape[1:]))
    return sums.index_add(0, segment_ids, data)


def loop(condition, body, state, constants):
    """`backends.loop`: a step as it is, and one that is traced.

    A fake tensor cannot say whether to go on.
    """

    def step(state, constants):
        state = body(state, constants)
        return state, condition(state)

    for function in (step, backend.trace(step, state, constants)):
        state, going = function(state, constants)
        assert_on_gpu(going)
    return state


def move(variables):
    for variable in variables:
        value = variable.value
        fake = torch.empty(value.shape, dtype=value.dtype, device=GPU)
        if isinstance(value, torch.nn.Parameter):
            fake = torch.nn.Parameter(fake, requires_grad=value.requires_grad)
        variable._value = fake


def assert_on_gpu(tensors):
    for tensor in tree.flatten(tensors):
        assert tensor.device == torch.device(GPU)


def ids(rows, length):
    generator = np.random.default_rng(0)
    return generator.integers(4, sizes.VOCABULARY_SIZE, (rows, length)).astype("int32")


def search_on_gpu(model, options, rows=2):
    options = DecodingOptions(**options)
    run = backends.compile(functools.partial(searches.search, model), model)
    move(model.variables)
    prefixes = np.full((rows, 2), FREE, "int32")
    inputs = {"prefix": ops.convert_to_tensor(prefixes)}
    if options.sampling:
        inputs["keys"] = np.zeros((rows, options.top_beams, 2), "int32")
    limits = np.full((rows,), 8, "int32")
    assert_on_gpu(run(ids(rows, 5), limits, inputs, length=8, options=options))


@pytest.mark.parametrize("options", OPTIONS.values(), ids=OPTIONS)
def test_search_stays_on_the_gpu(gpu, options):
    model = models.build("paper")
    with gpu():
        search_on_gpu(model, options)


@pytest.mark.parametrize("kind", KINDS[1:])
def test_search_of_every_kind_of_model_stays_on_the_gpu(gpu, kind):
    model = models.build(kind)
    with gpu():
        search_on_gpu(model, {"beam_size": 3})


def test_search_of_an_ensemble_stays_on_the_gpu(gpu):
    model = Ensemble([models.build("paper"), models.build("halves")])
    with gpu():
        search_on_gpu(model, {"beam_size": 2})


def test_search_of_many_rows_stays_on_the_gpu(gpu):
    model = models.build("paper", num_decoder_layers=1)
    with gpu():
        search_on_gpu(model, {"beam_size": 2}, rows=search_loop.MANY_ROWS)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_and_attention_stay_on_the_gpu(gpu, kind):
    model = models.build(kind)
    with gpu():
        move(model.variables)
        for function in (scoring.token_scores, scoring.reread, scoring.attention):
            run = backends.compile(functools.partial(function, model), model)
            assert_on_gpu(run(ids(3, 5), ids(3, 4)))


def test_attention_by_kernels_stays_on_the_gpu(gpu, monkeypatch):
    functional, calls = torch.nn.functional, []
    own = functional.scaled_dot_product_attention

    def counted(query, key, value, bias, is_causal, scale):
        assert_on_gpu([query, key, value, *[b for b in (bias,) if b is not None]])
        calls.append((bias is not None, is_causal))
        return own(query, key, value, bias, is_causal=is_causal, scale=scale)

    monkeypatch.setattr(functional, "scaled_dot_product_attention", counted)
    model = models.build("paper", "mixed_bfloat16")
    with gpu():
        move(model.variables)
        run = backends.compile(functools.partial(scoring.token_scores, model), model)
        assert_on_gpu(run(ids(3, 5), ids(3, 4)))
    padding, causal = (True, False), (False, True)
    assert calls == [padding] * 2 + [causal, padding] * 2  # encoder, decoder


def backward(loss, model):
    """Gradients alone: PyTorch's engine wants a GPU."""
    assert_on_gpu(loss)
    for variable in model.trainable_variables:
        variable.value.grad = torch.empty_like(variable.value)


TRAINING = {
    "fused": ("paper", {}, metrics.TokenAccuracy, 1),
    "micro batches": ("paper", {}, metrics.GradientNorm, 3),
    "R-Drop": ("paper", {"r_drop": 1.0}, metrics.TokenAccuracy, 1),
    "not fused": ("paper", {}, keras.metrics.SparseCategoricalAccuracy, 1),
    **{kind: (kind, {}, metrics.TokenAccuracy, 1) for kind in KINDS[1:]},
}


@pytest.mark.parametrize(
    ("kind", "loss", "metric", "parts"), TRAINING.values(), ids=TRAINING
)
def test_a_training_step_with_dropout_stays_on_the_gpu(
    gpu, monkeypatch, kind, loss, metric, parts
):
    dropout = {"dropout": 0.3}
    if kind == "paper":
        dropout |= {"attention_dropout": 0.2, "activation_dropout": 0.1}
    model = models.build(kind, **dropout)
    model.compile(
        optimizer=keras.optimizers.Adam(clipnorm=1.0),
        loss=losses.LabelSmoothedCrossEntropy(0.1, **loss),
        metrics=[metric()],
    )
    model.optimizer.build(model.trainable_variables)
    model.micro_batches = parts
    data = ({"source": ids(6, 5), "target": ids(6, 4)}, ids(6, 4))
    model.train_on_batch(*data)  # builds what is left, on the processor
    monkeypatch.setattr(torch.Tensor, "backward", lambda loss: backward(loss, model))
    with gpu():
        move([*model.variables, *model.optimizer.variables, *model.metrics_variables])
        data = tree.map_structure(ops.convert_to_tensor, data)
        assert_on_gpu(model.train_step(data))
        assert_on_gpu(model.test_step(data))
        assert_on_gpu([variable.value for variable in model.variables])


def test_constants_of_two_devices_stay_two(monkeypatch):
    """Also where they are equal: one on the processor, its copy on another device."""
    monkeypatch.setattr(torch_tracing, "_bytes", lambda tensor: b"")
    constant = torch.ones(3)

    def function(values):
        return constant + 0, constant.to("meta") + 0, values

    here, there, _ = torch_tracing.trace(function, torch.ones(3))(torch.ones(3))
    assert (here.device.type, there.device.type) == ("cpu", "meta")


@pytest.mark.parametrize(
    "constant",
    [
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones(3, dtype=torch.int32)[::2],
        torch.ones((), dtype=torch.int32).expand(1),  # of stride 0
        torch.ones(()),
    ],
)
def test_equal_constants_are_shared_whatever_their_dtype_and_strides(constant):
    same = constant.clone()

    def function(values):
        return values[:1] + constant, values[:1] + same

    first, second = torch_tracing.trace(function, torch.ones(3))(torch.ones(3))
    assert first is second
