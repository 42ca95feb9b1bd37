"""What JAX compiles for a GPU, looked at without one: training steps and searches.

A program is lowered for CUDA on any machine. Its operations are then those of the
GPU's program, before XLA fuses them.
"""

import functools
import math
import re

import keras
import numpy as np
import pytest

from keras_transformer import backends
from keras_transformer import losses
from keras_transformer import metrics
from keras_transformer.decoding import DecodingOptions
from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.models import search as searches
from reference import models

jax = pytest.importorskip("jax")
if keras.backend.backend() != "jax":
    pytest.skip("lowers programs of JAX", allow_module_level=True)

from jax._src.cudnn import fused_attention_stablehlo as cudnn  # noqa: E402

from keras_transformer.backends import jax as backend  # noqa: E402

#: More tokens than a chunk of the loss has, and no axis of the model as long as these;
#: a vocabulary that the loss need not enlarge.
BATCH, LENGTH, VOCABULARY = 64, 64, 1088
SIZES = {"hidden_dim": 32, "intermediate_dim": 48, "num_heads": 4, "head_dim": None}
SIZES |= {"value_dim": None, "vocabulary_size": VOCABULARY, "num_encoder_layers": 1}
SIZES |= {"num_decoder_layers": 1, "max_sequence_length": 2 * LENGTH}
SCORES = BATCH * SIZES["num_heads"] * LENGTH**2
LOGITS = BATCH * LENGTH * VOCABULARY
KINDS = ("paper", "learned, deep encoder", "recurrent", "convolutional")


@pytest.fixture(scope="module", autouse=True)
def gpu():
    """A machine whose programs are for an H100 with cuDNN 9.10."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cudnn, "check_cudnn_version", lambda: 91000)
        patch.setattr(cudnn, "check_compute_capability", lambda least: True)
        patch.setattr(backend, "_has_cudnn_attention", lambda: True)
        patch.setattr(jax, "default_backend", lambda: "gpu")
        # Keras' LSTM by cuDNN needs a jaxlib for GPUs.
        patch.setattr(backends, "use_cudnn", False)
        yield


def lowered(function, *arguments):
    """The StableHLO of a function, for CUDA."""
    return function.trace(*arguments).lower(lowering_platforms=("cuda",)).as_text()


def training_step(kind="paper", length=LENGTH, batch=BATCH, metric=None, **fields):
    """The StableHLO of a training step in mixed bfloat16."""
    model = models.build(kind, "mixed_bfloat16", **fields)
    model.compile(
        optimizer=keras.optimizers.Adam(clipnorm=1.0),
        loss=losses.LabelSmoothedCrossEntropy(0.1),
        metrics=[metric or metrics.TokenAccuracy()],
    )
    ids = np.ones((batch, length), "int32")
    data = ({"source": ids, "target": ids}, ids, None)
    model._symbolic_build(data_batch=data)
    model.optimizer.build(model.trainable_variables)
    state = [
        [variable.value for variable in variables]
        for variables in (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
    ]
    return lowered(jax.jit(model.train_step), state, data)


@pytest.fixture(scope="module")
def step():
    """That of a model with dropout and fused attention."""
    return training_step(dropout=0.1, **SIZES)


def arrays(text):
    """`{(shape, dtype)}` of all that a program computes."""
    found = re.findall(r"tensor<((?:\d+x)*)(\w+)>", text)
    return {(tuple(map(int, dims.split("x")[:-1])), dtype) for dims, dtype in found}


def large_arrays(text, elements):
    return [shape for shape, _ in arrays(text) if math.prod(shape) >= elements]


# === Training ===


def test_attention_is_cudnns_forward_and_backward(step):
    calls = re.findall(r"@(__cudnn\$fmha\w*)", step)
    backward = [name for name in calls if name.endswith("Backward")]
    # Of the encoder, of the decoder and between them.
    assert (len(calls), len(backward)) == (6, 3)


def test_a_training_step_has_no_array_of_all_scores(step):
    """Those of the loss have the vocabulary as an axis, and are of a chunk."""
    others = [s for s in large_arrays(step, SCORES) if VOCABULARY not in s]
    assert others == []


def test_a_training_step_has_no_array_of_all_logits(step):
    assert large_arrays(step, LOGITS) == []


def test_the_largest_array_grows_with_the_length_not_its_square():
    sizes = []
    for length in (LENGTH, 2 * LENGTH):
        text = training_step(length=length, batch=BATCH * LENGTH // length, **SIZES)
        found = [math.prod(s) for s, _ in arrays(text) if VOCABULARY not in s]
        sizes.append(max(found))
    assert sizes[1] < 1.5 * sizes[0]


def test_without_fusion_both_arrays_are_there():
    """So that the tests above can fail."""
    text = training_step(
        metric=keras.metrics.SparseCategoricalAccuracy(),
        attention_dropout=0.1,
        **SIZES,
    )
    assert "cudnn" not in text
    assert (BATCH, SIZES["num_heads"], LENGTH, LENGTH) in large_arrays(text, SCORES)
    assert (BATCH, LENGTH, VOCABULARY) in large_arrays(text, LOGITS)


def test_matrix_products_of_a_training_step_are_bfloat16(step):
    lines = [line for line in step.splitlines() if "stablehlo.dot_general" in line]
    found = [re.findall(r"tensor<(?:\d+x)*(\w+)>", line)[:2] for line in lines]
    assert len(found) > 20
    assert [operands for operands in found if operands != ["bf16", "bf16"]] == []


def test_random_bytes_cost_three_operations_of_integers_each(step):
    """A word of four bytes takes eleven; threefry would take about 75, rbg 12."""
    assert "threefry" not in step and "rng" not in step
    kinds = ("multiply", "xor", "shift_right_logical", "shift_left", "or", "add")
    pattern = rf"stablehlo\.(?:{'|'.join(kinds)}) .*tensor<((?:\d+x)*)ui32>$"
    operations = sum(
        math.prod(map(int, dims.split("x")[:-1]))
        for dims in re.findall(pattern, step, re.MULTILINE)
    )
    bytes_of = re.findall(r"bitcast_convert .*-> tensor<((?:\d+x)*)ui8>", step)
    drawn = sum(math.prod(map(int, dims.split("x")[:-1])) for dims in bytes_of)
    # Embeddings of both sides, and each of the five sublayers.
    assert drawn >= 7 * BATCH * LENGTH * SIZES["hidden_dim"]
    assert operations < 3.1 * drawn


@pytest.mark.parametrize("kind", KINDS[1:])
def test_a_training_step_of_every_kind_is_lowered(kind):
    assert "stablehlo.dot_general" in training_step(kind, length=8)


@pytest.mark.parametrize(
    ("fields", "calls"),
    [
        ({"attention_dropout": 0.1}, 0),
        ({"position": "relative_buckets"}, 2),  # between encoder and decoder alone
        ({"num_heads": 8, "head_dim": 4}, 0),  # cuDNN wants multiples of 8
        ({"length": LENGTH - 1}, 6),  # an odd length is made even
    ],
    ids=str,
)
def test_attention_that_the_kernel_cannot_compute_is_not_its(fields, calls):
    text = training_step(**{**SIZES, **fields})
    assert len(re.findall(r"@__cudnn\$fmha", text)) == calls


# === Searches ===


class Lowered:
    """In place of a program: what it would run."""

    def __init__(self, function):
        self._function = function

    def __call__(self, *arguments):
        return lowered(self._function, *arguments)


SEARCHES = {
    "greedy": ("paper", {}),
    "beam": ("paper", {"beam_size": 3, "top_beams": 2}),
    "groups": (
        "paper",
        {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    ),
    "samples": ("paper", {"sampling": True, "top_k": 5, "temperature": 0.7}),
    **{kind: (kind, {"beam_size": 3}) for kind in KINDS[1:]},
}


@pytest.mark.parametrize(("kind", "options"), SEARCHES.values(), ids=SEARCHES)
def test_a_search_is_one_loop_of_a_program_for_the_gpu(monkeypatch, kind, options):
    monkeypatch.setattr(backend, "FirstAlone", Lowered)
    model = models.build(kind, "mixed_bfloat16")
    options = DecodingOptions(**options)
    run = backends.compile(functools.partial(searches.search, model), model)
    rows = 2
    inputs = {"prefix": np.full((rows, 2), FREE, "int32")}
    if options.sampling:
        inputs["keys"] = np.zeros((rows, options.top_beams, 2), "int32")
    source = np.ones((rows, 5), "int32")
    limits = np.full((rows,), 8, "int32")
    text = run(source, limits, inputs, length=8, options=options)
    assert "stablehlo.while" in text
