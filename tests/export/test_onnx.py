"""ONNX graphs in onnxruntime: our translations, without Keras and this package."""

import functools
import json

import keras
import numpy as np
import pytest
from keras import ops

import keras_transformer as kt
from keras_transformer.export import onnx
from keras_transformer.export import web_page
from keras_transformer.export.description import describe_graphs
from reference import configs
from reference import models
from reference import sizes
from reference.fixture_folder import BLOCKED
from reference.fixture_folder import ON_TENSORFLOW
from reference.fixture_folder import lines
from reference.weights import ids
from reference.weights import randomize
from reference.weights import sources

pytestmark = ON_TENSORFLOW


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    output = tmp_path_factory.mktemp("export") / "model"
    with pytest.warns(UserWarning, match="the page needs it: run in .*: npm install"):
        return onnx.export(translator, output, web=True)


USE = """
import json, sys
sys.path.insert(0, {folder!r})
from translate import Translator

translator = Translator({folder!r}, threads=1)
lines = {lines!r}
greedy, beam = (translator.translate(lines, size, batch_size=8) for size in (1, 4))
rows = translator.hypotheses(lines, 4, batch_size=8, top_beams=3)
best = [[translator.text(h), h.score] for h in rows[1]]
print(json.dumps([greedy, beam, best]))
"""


def use(run_python, folder, source):
    code = USE.format(folder=str(folder), lines=source)
    return json.loads(run_python(code, block=BLOCKED).splitlines()[-1])


def test_a_folder_translates_alone(translator, folder, run_python):
    source = ["", *lines("source"), "\t"]
    greedy, beam, best = use(run_python, folder, source)
    assert greedy == ["", *lines("greedy"), ""]
    assert beam == ["", *lines("beam"), ""]
    options = {"beam_size": 4, "top_beams": 3, "return_details": True}
    (expected,) = translator.translate(source[1:2], **options)
    assert [text for text, _ in best] == [h.text for h in expected]
    scores = [h.score for h in expected]
    assert [score for _, score in best] == pytest.approx(scores, abs=1e-4)


def test_the_program_reads_and_writes_lines(folder, run_python):
    code = f"""
import io, runpy, sys
sys.stdin = io.TextIOWrapper(io.BytesIO({chr(10).join(lines("source")).encode()!r}))
sys.argv = ["translate.py", "--batch-size", "8", "--threads", "1", "--scores"]
sys.path.insert(0, {str(folder)!r})
runpy.run_path({str(folder / "translate.py")!r}, run_name="__main__")
"""
    rows = [line.split("\t") for line in run_python(code, block=BLOCKED).split("\n")]
    assert [text for _, text in rows[:-1]] == lines("beam")
    assert all(float(score) < 0 for score, _ in rows[:-1])


def test_the_description_is_true(translator, folder):
    import onnxruntime

    description = json.loads((folder / "model.json").read_text("utf-8"))
    page = folder / description["page"]
    assert all(page.with_name(name).is_file() for name in web_page.FILES)
    assert page.name in (folder / "README.md").read_text("utf-8")
    assert description["ids"] == {"pad": 0, "start": 1, "end": 2, "suppressed": [0, 1]}
    kinds = {"int32": "tensor(int32)", "float32": "tensor(float)"}
    for graph in description["graphs"].values():
        session = onnxruntime.InferenceSession(folder / graph["file"])
        for found, described in (
            (session.get_inputs(), graph["inputs"]),
            (session.get_outputs(), graph["outputs"]),
        ):
            assert {value.name: (value.type, value.shape) for value in found} == {
                tensor["name"]: (kinds[tensor["dtype"]], tensor["shape"])
                for tensor in described
            }


@pytest.mark.parametrize(
    ("name", "fields"),
    [
        ("learned, deep encoder", {}),
        *((name, configs.ONE_LAYER) for name in configs.EXPORTED_PARTS),
    ],
)
def test_a_step_gives_the_logits_of_the_model(name, fields):
    """With free sizes, reordered hypotheses and a cache that grows."""
    onnxruntime = pytest.importorskip("onnxruntime")
    from keras_transformer.export import onnx_graph
    from keras_transformer.export.decoding_graph import DecodingGraph

    model = randomize(models.build(name, **fields))
    graphs, facts = DecodingGraph(model), describe_graphs(model.config, "a", "b")
    encoder, step = (
        onnxruntime.InferenceSession(
            onnx_graph.convert(
                *getattr(graphs, part)(), facts["graphs"][part]
            ).SerializeToString()
        )
        for part in ("encoder", "step")
    )

    def run(session, inputs):
        names = [output.name for output in session.get_outputs()]
        return dict(zip(names, session.run(names, inputs), strict=True))

    width, length, count = sizes.BEAM_SIZE, 7, 4
    source = sources()
    rows = len(source)
    memory, mask, _ = model.encode(ops.convert_to_tensor(source))
    constants, cache = model.start(memory, mask, width, length)
    inputs = run(encoder, {"source": source})
    shapes = {t["name"]: t["shape"] for t in facts["graphs"]["step"]["inputs"]}
    known = {"B": rows, "W": width, "L": 3}
    for tensor, shape in shapes.items():
        if tensor.startswith("cache_"):
            shape = [known.get(size, size) for size in shape]
            inputs[tensor] = np.zeros(shape, "float32")
    beams = np.tile(np.arange(width, dtype="int32"), (rows, 1))
    for position in range(length):
        tokens = ids([width] * rows, seed=position)
        at = np.array(position, "int32")
        inputs |= {"tokens": tokens, "position": at, "beams": beams}
        outputs = run(step, inputs | {"count": np.array(count, "int32")})
        reordered = functools.partial(_reordered, beams=beams)
        cache = keras.tree.map_structure(reordered, cache)
        logits, cache, _ = model.decode_step(
            ops.convert_to_tensor(tokens), at, constants, cache
        )
        np.testing.assert_allclose(outputs["logits"], logits, atol=1e-4)
        likely = ops.convert_to_numpy(ops.log_softmax(logits))
        likely[..., [model.config.pad_id, model.config.start_id]] = -np.inf
        best = np.argsort(-likely, axis=-1, kind="stable")[..., :count]
        np.testing.assert_array_equal(outputs["best_ids"], best)
        np.testing.assert_allclose(
            outputs["best_log_probabilities"],
            np.take_along_axis(likely, best, axis=-1),
            atol=1e-4,
        )
        for tensor in shapes:
            if tensor.startswith("cache_"):
                grown = outputs[f"new_{tensor}"]
                if position == 2 and "L" in shapes[tensor]:
                    grown = np.pad(grown, [(0, 0)] * 3 + [(0, length - 3), (0, 0)])
                inputs[tensor] = grown
        beams = (beams + position) % width


def test_a_decoder_with_states_translates_alone(tmp_path, run_python):
    """An SSRU's cache does not grow with the translation, of up to 29 tokens here."""
    pytest.importorskip("tf2onnx")
    pytest.importorskip("onnxruntime")
    tokenizer = kt.data.Tokenizer.train(["a house"] * 9, 270)
    fields = {"vocabulary_size": 270, **configs.ONE_LAYER}
    model = randomize(models.build("ssru", **fields))
    translator = kt.Translator(model, tokenizer, beam_size=4)
    folder = onnx.export(translator, tmp_path / "model")
    description = json.loads((folder / "model.json").read_text("utf-8"))
    assert "L" not in description["letters"]
    source = ["a house", "house a house a", "a"]
    found = use(run_python, folder, source)[:2]
    assert found == [translator.translate(source, beam_size=size) for size in (1, 4)]


@pytest.mark.parametrize("name", ["pre-norm", "pre-norm, nothing tied"])
def test_every_activation_is_in_onnx(name):
    onnxruntime = pytest.importorskip("onnxruntime")
    from keras_transformer.export import onnx_graph
    from keras_transformer.export.decoding_graph import DecodingGraph

    model = models.model(name)
    facts = describe_graphs(model.config, "a", "b")["graphs"]["encoder"]
    graph = onnx_graph.convert(*DecodingGraph(model).encoder(), facts)
    session = onnxruntime.InferenceSession(graph.SerializeToString())
    (found,) = session.run(["memory_key_1"], {"source": sources()})
    memory, mask, _ = model.encode(ops.convert_to_tensor(sources()))
    constants, _ = model.start(memory, mask, 1, 1)
    np.testing.assert_allclose(found, constants["memory"][1][0], atol=1e-4)


def _reordered(cache, beams):
    rows = np.arange(len(beams))[:, None]
    return ops.convert_to_tensor(ops.convert_to_numpy(cache)[rows, beams])


def test_int8_is_smaller_and_translates(translator, folder, tmp_path, run_python):
    quantized = onnx.export(translator, tmp_path / "int8", quantization="int8")
    for name in ("encoder.onnx", "step.onnx"):
        small, large = ((f / name).stat().st_size for f in (quantized, folder))
        assert small < 0.7 * large
    greedy, *_ = use(run_python, quantized, lines("source"))
    assert sum(a == b for a, b in zip(greedy, lines("greedy"), strict=True)) >= 5
