"""SavedModel: it stands alone, and says what `Translator` says."""

import json
import os
import shutil
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from reference import configs
from reference import models
from reference.fixture_folder import ON_TENSORFLOW
from reference.weights import randomize

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "en-de.format-1"
COMMITTED = ROOT / "saved_models" / "phrasebook-en-de"
#: What `Translator` gave for the warm-up lines of the committed model.
EXPECTED = Path(__file__).with_name("phrasebook-en-de.json")
pytestmark = ON_TENSORFLOW


# === It stands alone ===

#: Plain TensorFlow and the operations of TensorFlow Text: what TF Serving has.
ALONE = """
import importlib.util, json, sys
from pathlib import Path
import numpy as np
import tensorflow as tf

text = Path(importlib.util.find_spec("tensorflow_text").origin).parent
tf.load_op_library(str(text / "python" / "ops" / "_sentencepiece_tokenizer.so"))
answers = []
for folder in {folders!r}:
    signatures = tf.saved_model.load(folder).signatures
    for name, inputs in json.loads(Path(folder, "../requests.json").read_text()):
        types = {{key: spec.dtype for key, spec in
                 signatures[name].structured_input_signature[1].items()}}
        answer = signatures[name](
            **{{key: tf.constant(value, types[key]) for key, value in inputs.items()}}
        )
        answers.append({{key: value.numpy().tolist() for key, value in answer.items()}})
assert not {{"keras", "keras_transformer", "tensorflow_text"}} & set(sys.modules)
print(json.dumps(answers, default=bytes.decode))
"""


def warm_up_requests(folder):
    """Name of the signature and inputs, read by TF Serving's own messages."""
    import tensorflow as tf

    messages = pytest.importorskip("tensorflow_serving.apis.prediction_log_pb2")
    path = folder / "assets.extra" / "tf_serving_warmup_requests"
    for record in tf.data.TFRecordDataset(str(path)):
        log = messages.PredictionLog.FromString(record.numpy())
        assert log.WhichOneof("log_type") == "predict_log"
        request = log.predict_log.request
        inputs = {key: tf.make_ndarray(value) for key, value in request.inputs.items()}
        for key, value in inputs.items():
            if value.dtype == object:
                inputs[key] = np.array([text.decode() for text in value])
        yield request.model_spec.signature_name, inputs


def own_requests(sources, odd_lines):
    for name in ("serving_default", "translate_greedy", "translate_n_best"):
        yield name, {"text": sources + odd_lines}
        yield name, {"text": []}
    yield "serving_default", {"text": odd_lines[:3]}
    yield from (("serving_default", {"text": [line]}) for line in (sources[0], ""))
    yield "encode", {"text": [*sources[:3], ""]}
    yield "encode", {"text": []}
    yield "score", {"source": sources, "target": sources[::-1]}
    yield "score", {"source": [], "target": []}


@pytest.fixture(scope="module")
def check(translator, said, sources):
    """Fails unless an answer is what `Translator` says."""
    greedy = (FOLDER / "greedy.txt").read_text(encoding="utf-8").splitlines()
    greedy = dict(zip(sources, greedy, strict=True))

    def check(name, inputs, answer):
        assert not any(answer["truncated"]) and not any(answer.get("replaced", ()))
        if name == "score":
            check_scores(translator, inputs, answer)
        elif name == "translate_ids":
            for row, length in enumerate(inputs["lengths"]):
                ids = inputs["ids"][row][:length]
                (text,) = translator.tokenizer.decode([ids])
                found = answer["ids"][row][: answer["num_tokens"][row]]
                assert found == said[text][0].ids
        elif name == "translate_greedy":
            for line, text in zip(inputs["text"], answer["translation"], strict=True):
                assert text == greedy.get(line, text)
        elif name == "encode":
            check_memory(translator, inputs["text"], answer)
        else:
            check_hypotheses([said[line] for line in inputs["text"]], answer)

    return check


def check_scores(translator, inputs, answer):
    found = translator.score(list(inputs["source"]), list(inputs["target"]))
    expected = [score.log_probability for score in found]
    np.testing.assert_allclose(answer["log_probability"], expected, atol=1e-3)
    assert answer["num_tokens"] == [score.num_tokens for score in found]


def check_memory(translator, lines, answer):
    """Of each line alone, where another pads it."""
    for line, memory, mask in zip(lines, answer["memory"], answer["mask"], strict=True):
        (ids,) = translator.tokenizer.encode([line])
        source = np.array([[*ids, translator.model.config.end_id]], "int32")
        expected = translator.model.encode(source).memory
        assert mask == [i < source.size for i in range(len(mask))]
        np.testing.assert_allclose(
            memory[: source.size], expected[0].numpy(), atol=1e-5
        )


def check_hypotheses(expected, answer):
    """The best hypothesis of each line, or all of them."""
    if "translations" not in answer:
        keys = {
            "translations": "translation",
            "scores": "score",
            "finished": "finished",
        }
        answer = {new: [[v] for v in answer[key]] for new, key in keys.items()}
        expected = [hypotheses[:1] for hypotheses in expected]
    for row, hypotheses in enumerate(expected):
        count = len(hypotheses)
        found = {key: answer[key][row] for key in answer if key != "truncated"}
        assert found["translations"][:count] == [h.text for h in hypotheses]
        assert found["finished"][:count] == [h.finished for h in hypotheses]
        scores = [h.score for h in hypotheses]
        np.testing.assert_allclose(found["scores"][:count], scores, atol=1e-4)
        if "num_tokens" in found:
            lengths = [len(h.ids) for h in hypotheses]
            assert found["num_tokens"] == lengths + [0] * (4 - count)


def test_a_process_without_keras_answers_as_the_translator(
    check, sources, odd_lines, exported, run_python, tmp_path
):
    folders, asked = [], []
    for folder, its in (
        (exported, own_requests(sources, odd_lines)),
        (COMMITTED / "1", ()),
    ):
        copy = tmp_path / folder.parent.name / "1"
        shutil.copytree(folder, copy)
        requests = list(warm_up_requests(copy))
        assert {name for name, _ in requests} == {
            *("serving_default", "translate_greedy", "translate_n_best"),
            *("translate_ids", "encode", "score"),
        }
        lists = [
            (name, {key: np.asarray(value).tolist() for key, value in inputs.items()})
            for name, inputs in [*requests, *its]
        ]
        (copy.parent / "requests.json").write_text(json.dumps(lists))
        folders.append(str(copy))
        asked += [(folder, *request) for request in lists]
    found = run_python(
        ALONE.format(folders=folders), block=("keras", "keras_transformer")
    )
    answers = json.loads(found.splitlines()[-1])
    committed = json.loads(EXPECTED.read_text(encoding="utf-8"))
    for (folder, name, inputs), answer in zip(asked, answers, strict=True):
        if folder == exported:
            check(name, inputs, answer)
        elif name == "serving_default":
            expected = [committed[line] for line in inputs["text"]]
            assert answer["translation"] == expected


#: Operations by the module of TensorFlow that registers them. All of tensorflow/core is
#: linked into TF Serving's server, and of TensorFlow Text the ops_lib (SentencePiece is
#: a part): `server_lib` and SUPPORTED_TENSORFLOW_OPS in
#: tensorflow_serving/model_servers/BUILD. XLA's and the converters' are not.
SERVED = [
    "array",
    "bitwise",
    "control_flow",
    "functional",
    "io",
    "math",
    "nn",
    "ragged_conversion",
    "resource_variable",
    "string",
]
SERVED_TEXT = {
    "SentencepieceDetokenizeOp",
    "SentencepieceOp",
    "SentencepieceTokenizeOp",
}


def test_each_operation_is_one_of_tf_serving(exported):
    import importlib

    from tensorflow.core.protobuf import saved_model_pb2

    registered = set()
    for name in SERVED:
        module = importlib.import_module(f"tensorflow.python.ops.gen_{name}_ops")
        registered |= {part for part in dir(module) if part[0].isupper()}
    for folder in (exported, COMMITTED / "1"):
        content = (folder / "saved_model.pb").read_bytes()
        (graph,) = saved_model_pb2.SavedModel.FromString(content).meta_graphs
        used = {node.op for node in graph.graph_def.node}
        functions = graph.graph_def.library.function
        used |= {node.op for function in functions for node in function.node_def}
        used -= {function.signature.name for function in functions}
        assert used - registered == SERVED_TEXT
        # Attributes at their defaults are left out: older servers may not know them.
        assert graph.meta_info_def.stripped_default_attrs


# === The batch ===


def test_inputs_and_outputs_share_the_batch_dimension(loaded, sources):
    import tensorflow as tf

    for name, signature in loaded.items():
        (_, inputs), outputs = signature.structured_input_signature, signature.outputs
        assert {spec.shape[0] for spec in inputs.values()} == {None}
        assert all(output.shape.rank and output.shape[0] is None for output in outputs)
        for rows in (0, 1, 3):
            given = {
                key: tf.zeros([rows] * spec.shape.rank, spec.dtype)
                if spec.dtype != tf.string
                else tf.constant(sources[:rows], tf.string)
                for key, spec in inputs.items()
            }
            for output in signature(**given).values():
                assert output.shape[0] == rows, name


def test_each_line_is_translated_as_if_alone(loaded, sources):
    import tensorflow as tf

    translate = loaded["translate_greedy"]
    lines = [*sources[:6], "", "a"]
    together = translate(text=tf.constant(lines))
    for row, line in enumerate(lines):
        alone = translate(text=tf.constant([line]))
        assert alone["translation"][0] == together["translation"][row]
        np.testing.assert_allclose(alone["score"][0], together["score"][row], atol=1e-4)


# === What a line may be ===


def odd_translator():
    """Untrained; a short limit, learned positions and two vocabularies."""
    source = kt.data.Tokenizer.train(["a house"] * 9, 270)
    target = kt.data.Tokenizer.train(["das kleine Haus"] * 9, 275)
    config = configs.tiny(
        source_vocabulary_size=270,
        target_vocabulary_size=275,
        tie_embeddings="target",
        position="learned",
        max_sequence_length=12,
        source_end=False,
    )
    return kt.Translator(kt.Transformer(config), source, target, beam_size=2)


def test_a_line_that_is_too_long_is_cut_and_marked():
    import tensorflow as tf

    from keras_transformer.export.signatures import Signatures

    translator = odd_translator()
    functions = Signatures(translator, translator.decoding).functions()
    letters = "abcdefghijklmnopqrstuvwxyz"  # most of them bytes of their own
    lines = ["a house", letters[:12], letters[:13], letters, ""]
    for name in ("serving_default", "translate_greedy", "translate_n_best", "encode"):
        answer = functions[name](text=tf.constant(lines))
        assert answer["truncated"].numpy().tolist() == [False, False, True, True, False]
    answer = functions["serving_default"](text=tf.constant(lines))
    cut = [line[:12] for line in lines]
    expected = translator.translate(cut, return_details=True)
    assert [text.decode() for text in answer["translation"].numpy()] == [
        best.text for (best,) in expected
    ]
    assert answer["finished"].numpy().tolist() == [
        best.finished for (best,) in expected
    ]
    answer = functions["score"](
        source=tf.constant(["a", "a"]), target=tf.constant([letters[:11], letters])
    )
    assert answer["truncated"].numpy().tolist() == [False, True]
    ids = tf.ones((2, 20), tf.int32) * 9
    answer = functions["translate_ids"](ids=ids, lengths=tf.constant([12, 20]))
    assert answer["truncated"].numpy().tolist() == [False, True]


@pytest.mark.parametrize(
    ("name", "num_layers"), [("recurrent", 1), ("convolutional, dilated", 2)]
)
def test_models_of_other_kinds_are_exported_too(name, num_layers, tmp_path):
    import tensorflow as tf

    from keras_transformer.export import saved_model

    tokenizer = kt.data.Tokenizer.train(["a house"] * 9, 270)
    sizes = {"vocabulary_size": 270, "source_vocabulary_size": 270}
    model = randomize(models.build(name, num_decoder_layers=num_layers, **sizes))
    translator = kt.Translator(model, tokenizer, beam_size=2)
    folder = saved_model.export(translator, tmp_path / "model")
    signatures = tf.saved_model.load(str(folder)).signatures
    lines = ["a house", "", "house a house"]
    found = signatures["serving_default"](text=tf.constant(lines))
    for row, (best,) in enumerate(translator.translate(lines, return_details=True)):
        assert found["translation"][row].numpy().decode() == best.text
        np.testing.assert_allclose(found["score"][row], best.score, atol=1e-4)
    empty = signatures["serving_default"](text=tf.constant([], tf.string))
    assert all(value.shape[0] == 0 for value in empty.values())
    labels = tf.constant(lines[::-1])
    found = signatures["score"](source=tf.constant(lines), target=labels)
    expected = [s.log_probability for s in translator.score(lines, lines[::-1])]
    np.testing.assert_allclose(found["log_probability"], expected, atol=1e-3)


def _nearness(config, side, **options):
    return Nearness(**options)


class Nearness(kt.layers.RelativePositionalEncoding):
    """The nearer, the more attention: a positional encoding of one's own."""

    def bias(self, query_positions, key_positions):
        distance = query_positions[:, None] - key_positions
        return -keras.ops.cast(keras.ops.abs(distance), "float32")[None]


#: LiteRT and ONNX have the others.
PARTS = [*configs.EXPORTED_PARTS, "nearness"]
if not os.environ.get("EVERY_TEST"):
    PARTS = [part for part in PARTS if part not in ("as T5", "rotary, grouped, gated")]


@pytest.mark.parametrize("name", PARTS)
def test_models_of_every_part_are_exported(name, tmp_path):
    import tensorflow as tf

    from keras_transformer.export.signatures import Signatures

    kt.models.register_position("nearness", _nearness)
    tokenizer = kt.data.Tokenizer.train(["a house"] * 9, 270)
    fields = {"vocabulary_size": 270, "source_vocabulary_size": 270}
    if name == "nearness":
        name, fields["position"] = "paper", name
    model = randomize(models.build(name, **configs.ONE_LAYER, **fields))
    translator = kt.Translator(model, tokenizer, beam_size=2)
    signatures = Signatures(translator, translator.decoding)
    # One signature alone, which takes the time of two searches less.
    translate = tf.function(
        signatures._translate(translator.decoding),
        autograph=False,
        input_signature=[tf.TensorSpec((None,), tf.string, name="text")],
    )
    tf.saved_model.save(
        signatures.module, str(tmp_path), signatures={"serving_default": translate}
    )
    loaded = tf.saved_model.load(str(tmp_path)).signatures["serving_default"]
    lines = ["a house", "house a house"]
    found = loaded(text=tf.constant(lines))
    for row, (best,) in enumerate(translator.translate(lines, return_details=True)):
        assert found["translation"][row].numpy().decode() == best.text
        np.testing.assert_allclose(found["score"][row], best.score, atol=1e-4)


def test_bytes_that_are_no_text_do_not_stop_the_batch(loaded, sources):
    import tensorflow as tf

    lines = [b"\xff\xfe\x80", b"\xed\xa0\x80", sources[0].encode()]
    answer = loaded["translate_greedy"](text=tf.constant(lines))
    alone = loaded["translate_greedy"](text=tf.constant(lines[2:]))
    assert answer["translation"][2] == alone["translation"][0]
