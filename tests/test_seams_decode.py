"""The seams of decoding: one loop in one program, and the same step when exported.

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
    """After so many steps as they are."""
    calls, traces = [], []
    monkeypatch.setattr(backends._backend, "EAGER_STEPS", eager)
    call, trace = MultiHeadAttention.call, backends._backend.trace
    monkeypatch.setattr(
        MultiHeadAttention, "call", lambda *a, **k: calls.append(a) or call(*a, **k)
    )
    monkeypatch.setattr(
        backends._backend, "trace", lambda *a: traces.append(a) or trace(*a)
    )
    run = backends.compile(search_of(model, kind), model)
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


# === Exported ===

export = [
    pytest.mark.export,
    pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow exports"),
]


def marked(function):
    for mark in export:
        function = mark(function)
    return function


@marked
@pytest.mark.parametrize("beam_size", [1, 3])
def test_the_step_runs_in_onnxruntime(model, beam_size):
    import tensorflow as tf

    onnxruntime = pytest.importorskip("onnxruntime")
    tf2onnx = pytest.importorskip("tf2onnx")
    length, rows = 6, 2
    source = tf.constant(sentences(rows, 4))
    constants, cache = model.start(*model.encode(source), beam_size, length)
    state = tf.nest.flatten((constants, cache))
    num_constants = len(tf.nest.flatten(constants))

    def step(tokens, position, *state):
        nested = tf.nest.pack_sequence_as((constants, cache), list(state))
        logits, new_cache = model.decode_step(tokens, position, *nested)
        return [logits, *tf.nest.flatten(new_cache)]

    def specification(index, tensor):
        shape = [None, *tensor.shape[1:]]
        if index < num_constants:  # any source length: (B, 1, 1, S), (B, H, S, K)
            shape = [None if size == source.shape[1] else size for size in shape]
        return tf.TensorSpec(shape, tensor.dtype, name=f"state_{index}")

    proto, _ = tf2onnx.convert.from_function(
        tf.function(step, autograph=False),
        input_signature=[
            tf.TensorSpec((None, beam_size), tf.int32, name="tokens"),
            tf.TensorSpec((), tf.int32, name="position"),
            *(specification(*item) for item in enumerate(state)),
        ],
        opset=17,
    )
    session = onnxruntime.InferenceSession(proto.SerializeToString())

    for rows, source_length in ((2, 4), (5, 7)):
        source = tf.constant(sentences(rows, source_length))
        constants, cache = model.start(*model.encode(source), beam_size, length)
        state = [t.numpy() for t in tf.nest.flatten((constants, cache))]
        tokens = np.ones((rows, beam_size), "int32")
        for position in range(length):
            feed = {f"state_{index}": tensor for index, tensor in enumerate(state)}
            feed |= {"tokens": tokens, "position": np.array(position, "int32")}
            logits, *new_cache = session.run(None, feed)
            expected, cache = model.decode_step(tokens, position, constants, cache)
            np.testing.assert_allclose(logits, expected, atol=1e-4)
            state[num_constants:] = new_cache
            # Another token in each beam, so that their caches differ.
            tokens = np.argsort(-logits, axis=-1)[..., 0] + np.arange(beam_size)
            tokens = (tokens % 13).astype("int32")


RUN_SAVED_MODEL = """
import sys
import numpy as np
import tensorflow as tf

search = tf.saved_model.load({folder!r}).signatures["serving_default"]
for path in {inputs!r}:
    inputs = {{name: tf.constant(value) for name, value in np.load(path).items()}}
    result = search(**inputs)
    np.savez(path, **{{name: value.numpy() for name, value in result.items()}})
assert not {{"keras", "keras_transformer"}} & set(sys.modules)
"""


@marked
@pytest.mark.parametrize("kind", SEARCHES)
def test_a_search_runs_in_a_saved_model_without_keras(
    model, kind, tmp_path, run_python
):
    import tensorflow as tf

    search = functools.partial(search_of(model, kind), length=12)

    def translate(source, limits):
        result = search(source, limits)
        return {"tokens": result.tokens, "scores": result.scores}

    module = tf.Module()
    module.variables_of_model = [variable.value for variable in model.variables]
    module.translate = tf.function(
        translate,
        autograph=False,
        input_signature=[
            tf.TensorSpec((None, None), tf.int32, name="source"),
            tf.TensorSpec((None,), tf.int32, name="limits"),
        ],
    )
    operations = module.translate.get_concrete_function().graph.get_operations()
    assert not [node.type for node in operations if node.type.startswith("Xla")]
    folder = str(tmp_path / "model")
    tf.saved_model.save(module, folder, signatures=module.translate)

    expected, paths = [], []
    run = backends.compile(search, model)
    for rows, source_length in ((3, 5), (4, 9), (0, 5)):
        source, limits = sentences(rows, source_length), np.resize(LIMITS, rows)
        paths.append(str(tmp_path / f"{rows}.npz"))
        np.savez(paths[-1], source=source, limits=limits)
        expected.append(run(source, limits))
    run_python(
        RUN_SAVED_MODEL.format(folder=folder, inputs=paths),
        block=("keras", "keras_transformer"),
    )
    for path, result in zip(paths, expected, strict=True):
        actual = np.load(path)
        np.testing.assert_array_equal(actual["tokens"], result.tokens)
        np.testing.assert_allclose(actual["scores"], result.scores, atol=1e-5)
