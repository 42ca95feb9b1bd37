"""LiteRT files in its interpreter: our translations, without Keras and this package."""

import json
import os

import numpy as np
import pytest
from keras import ops

from keras_transformer.decoding import DecodingOptions
from keras_transformer.export import litert
from keras_transformer.models.search import search
from reference import configs
from reference import models
from reference import sizes
from reference.fixture_folder import BLOCKED
from reference.fixture_folder import ON_TENSORFLOW
from reference.fixture_folder import lines
from reference.weights import randomize
from reference.weights import sources

pytestmark = ON_TENSORFLOW


@pytest.fixture(scope="module")
def folder(translator, tmp_path_factory):
    pytest.importorskip("ai_edge_litert")
    return litert.export(translator, tmp_path_factory.mktemp("export") / "model")


USE = """
import json, sys
sys.path.insert(0, {folder!r})
from translate import Translator

translator = Translator({folder!r}, threads=1)
lines = {lines!r}
results = []
for whole in {whole!r}:
    translator.engine.whole_searches = whole
    results += [translator.translate(lines, size, batch_size=8) for size in (1, 4)]
print(json.dumps(results))
"""


def use(run_python, folder, source, whole):
    code = USE.format(folder=str(folder), lines=source, whole=whole)
    return json.loads(run_python(code, block=BLOCKED).splitlines()[-1])


def test_a_folder_translates_alone(folder, run_python):
    """With the loop in the file, and with the loop around its step."""
    source = ["", *lines("source"), "\t"]
    expected = [["", *lines(name), ""] for name in ("greedy", "beam")]
    assert use(run_python, folder, source, [True, False]) == expected * 2


def test_the_description_is_true(folder):
    from ai_edge_litert.interpreter import Interpreter

    description = json.loads((folder / "model.json").read_text("utf-8"))
    interpreter = Interpreter(str(folder / "model.tflite"))
    found = interpreter.get_signature_list()
    assert found == {
        graph["signature"]: {
            part: sorted(tensor["name"] for tensor in graph[part])
            for part in ("inputs", "outputs")
        }
        for graph in description["graphs"].values()
    }
    for name in found:
        runner = interpreter.get_signature_runner(name)
        for part, details in (
            ("inputs", runner.get_input_details()),
            ("outputs", runner.get_output_details()),
        ):
            for tensor in description["graphs"][name][part]:
                assert (
                    details[tensor["name"]]["dtype"].__name__.rstrip("_")
                    == (tensor["dtype"])
                )
    assert description["graphs"]["beam"]["beam_size"] == 4


#: SavedModel and ONNX have the other.
PARTS = [
    part
    for part in configs.EXPORTED_PARTS
    if part != "deep, additive, unlike sides" or os.environ.get("EVERY_TEST")
]


@pytest.mark.parametrize(
    ("name", "fields", "beam_size"),
    [
        ("pre-norm", configs.ONE_LAYER, sizes.BEAM_SIZE),
        *((name, configs.ONE_LAYER, 1) for name in PARTS),
    ],
)
def test_a_search_inside_of_the_file_is_our_search(name, fields, beam_size):
    """Also where no hypothesis ends, and of a model with gelu."""
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    model = randomize(models.build(name, **fields))
    length, source = 5, sources()
    limits = np.array([5, 3, 4, 5, 1], "int32")
    options = DecodingOptions(beam_size=beam_size)
    content = litert._convert(model, options, None, model.config.start_id)
    runner = interpreter.Interpreter(model_content=content).get_signature_runner(
        "greedy" if beam_size == 1 else "beam"
    )
    found = runner(source=source, limits=limits, length=np.int32(length))
    expected = search(
        model,
        ops.convert_to_tensor(source),
        ops.convert_to_tensor(limits),
        length=length,
        options=options,
    )
    np.testing.assert_array_equal(found["tokens"], expected.tokens)
    np.testing.assert_array_equal(found["finished"], expected.finished)
    assert not expected.finished.numpy().all()
    np.testing.assert_allclose(found["scores"], expected.scores, atol=1e-4)


@pytest.mark.parametrize(("name", "least"), [("float16", 19), ("int8", 5)])
def test_quantized_files_are_smaller_and_translate(
    translator, folder, tmp_path, run_python, name, least
):
    quantized = litert.export(translator, tmp_path / name, quantization=name)
    small, large = (
        (path / "model.tflite").stat().st_size for path in (quantized, folder)
    )
    assert small < 0.75 * large
    greedy, _ = use(run_python, quantized, lines("source"), [True])
    assert sum(a == b for a, b in zip(greedy, lines("greedy"), strict=True)) >= least
