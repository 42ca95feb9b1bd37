"""A search is one loop in one compiled program.

B batch, S source positions, W beam width, L most tokens.
"""

import functools
import sys

import keras
import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.models.search import search
from reference.weights import scatter

BACKEND = keras.backend.backend()
LIMITS = np.array([3, 12, 8], "int32")
SEARCHES = ("greedy", "beam")


@pytest.fixture(scope="module")
def model():
    config = TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=13,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=2,
        num_encoder_layers=2,
        num_decoder_layers=2,
    )
    return scatter(Transformer(config), seed=3, deviation=0.5)


def sentences(rows, length, seed=0):
    ids = np.random.default_rng(seed).integers(3, 13, (rows, length))
    ids[:1, length // 2 :] = 0
    return ids.astype("int32")


def search_of(model, kind, suppressed=()):
    """`models.search.search` of the model, as a translator has it."""
    beams = {"beam_size": 3, "top_beams": 2} if kind == "beam" else {"beam_size": 1}
    options = DecodingOptions(**beams, suppressed_tokens=suppressed)
    return functools.partial(search, model, options=options)


def tensors(rows=3, length=5):
    arrays = sentences(rows, length), np.resize(LIMITS, rows)
    return [ops.convert_to_tensor(array) for array in arrays]


# === One loop in one program ===


def equations(jaxpr):
    """All equations of a jaxpr and of those inside of it."""
    for equation in jaxpr.eqns:
        yield equation
        for value in equation.params.values():
            for inner in value if isinstance(value, tuple | list) else [value]:
                inner = getattr(inner, "jaxpr", inner)
                if hasattr(inner, "eqns"):
                    yield from equations(inner)


@pytest.mark.skipif(BACKEND != "jax", reason="reads a jaxpr")
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_is_one_loop_of_a_jaxpr(model, kind):
    import jax

    run = backends.compile(search_of(model, kind), model)
    sizes = []
    for length in (12, 40):
        jaxpr = jax.make_jaxpr(lambda *a, length=length: run(*a, length=length))(
            *tensors()
        )
        names = [equation.primitive.name for equation in equations(jaxpr.jaxpr)]
        assert [name for name in names if name in {"while", "scan"}] == ["while"]
        sizes.append(len(names))
    assert sizes[0] == sizes[1]  # nothing is unrolled


@pytest.mark.skipif(BACKEND != "tensorflow", reason="reads a graph of TensorFlow")
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_is_one_loop_of_a_tensorflow_graph(model, kind):
    import tensorflow as tf

    run = backends.compile(search_of(model, kind), model)
    sizes = []
    for length in (12, 40):
        program = tf.function(lambda *a, length=length: run(*a, length=length))
        graph = program.get_concrete_function(*tensors()).graph.as_graph_def()
        functions = graph.library.function
        nodes = [node.op for part in functions for node in part.node_def]
        loops = [node for node in nodes if "While" in node]
        assert loops in (["While"], ["StatelessWhile"])
        assert any(function.attr["_XlaMustCompile"].b for function in functions)
        sizes += [
            len(function.node_def)
            for function in functions
            if "while_body" in function.signature.name
        ]
    assert len(sizes) == 2
    assert sizes[0] == sizes[1]  # nothing is unrolled


@pytest.mark.skipif(BACKEND != "torch", reason="counts the traces of PyTorch")
@pytest.mark.parametrize("eager", [0, 2])
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_on_pytorch_traces_its_step_once_a_shape(
    model, kind, eager, monkeypatch
):
    """After so many steps as they are; at once where many are expected."""
    calls, traces = [], []
    monkeypatch.setattr(backends._backend, "EAGER_STEPS", eager or 2)
    expected = 0 if eager else backends._backend._MANY_STEPS
    call, trace = MultiHeadAttention.call, backends._backend.trace
    monkeypatch.setattr(
        MultiHeadAttention, "call", lambda *a, **k: calls.append(a) or call(*a, **k)
    )
    monkeypatch.setattr(
        backends._backend, "trace", lambda *a: traces.append(a) or trace(*a)
    )
    run = backends.compile(search_of(model, kind), model)
    with backends.expecting(expected):
        first = run(*tensors(), length=12)
    # Of two encoder blocks; and self- and cross-attention of two decoder blocks, in
    # each step and in one trace.
    assert (len(calls), len(traces)) == (2 + 4 * (eager + 1), 1)
    second = run(*tensors(), length=12)
    assert (len(calls), len(traces)) == (2 * 2 + 4 * (eager + 1), 1)
    assert first.tokens.equal(second.tokens)

    for _ in range(3):
        run(*tensors(length=9), length=12)
    assert len(traces) == 2


@pytest.mark.skipif(BACKEND != "torch", reason="watches Python frames on PyTorch")
@pytest.mark.parametrize("kind", SEARCHES)
def test_no_layer_runs_in_a_loop_on_pytorch(model, kind, monkeypatch):
    """Once it is traced, which pays from some number of steps on."""
    monkeypatch.setattr(backends._backend, "EAGER_STEPS", 0)
    search = search_of(model, kind, suppressed=(model.config.end_id,))
    run = backends.compile(search, model)
    arguments = tensors()
    frames = []

    def watch(frame, event, argument):
        if event == "call":
            frames.append(frame.f_globals.get("__name__", ""))

    def count(length):
        run(*arguments, length=length)
        frames.clear()
        sys.setprofile(watch)
        try:
            result = run(*arguments, length=length)
        finally:
            sys.setprofile(None)
        inside = [n for n in frames if n.startswith("keras_transformer.layers")]
        return int(result.lengths.max()), len(inside)

    (short, once), (long, again) = count(2), count(12)
    assert long > short
    assert once == again  # those before the loop alone
