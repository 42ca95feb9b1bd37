"""The folder of a SavedModel: versions, card, a client, the other backends."""

import json
import re
from concurrent import futures
from pathlib import Path

import keras
import pytest

from keras_transformer.errors import InputError
from reference.fixture_folder import FOLDER
from reference.fixture_folder import lines

BACKEND = keras.backend.backend()
ROOT = Path(__file__).resolve().parents[2]
COMMITTED = ROOT / "saved_models" / "phrasebook-en-de"

pytestmark = [pytest.mark.export]
on_tensorflow = pytest.mark.skipif(BACKEND != "tensorflow", reason="TensorFlow exports")


# === The folder ===


@on_tensorflow
def test_versions_follow_each_other(translator, tmp_path, monkeypatch):
    from keras_transformer.export import saved_model

    monkeypatch.setattr(saved_model, "_write", lambda *arguments: {})
    output = tmp_path / "a" / "en-de"
    assert saved_model.export(translator, output) == output / "1"
    assert saved_model.export(translator, output, version=7) == output / "7"
    assert saved_model.export(translator, output) == output / "8"
    assert sorted(path.name for path in output.iterdir()) == [
        "1",
        "7",
        "8",
        "README.md",
    ]
    assert saved_model.export(translator, output, version=2) == output / "2"
    card = (output / "README.md").read_text(encoding="utf-8")
    assert "/models/en-de/8/batching_params.pbtxt" in card
    assert 'curl -d \'{"instances": ["YOUR TEXT"]}\'' in card  # without examples
    assert '"predictions"' not in card
    assert not list((output / "2").iterdir())
    with pytest.raises(InputError, match=r"version 7 of .* is there already"):
        saved_model.export(translator, output, version=7)
    with pytest.raises(InputError, match=r"version 0 of .* is not above 0"):
        saved_model.export(translator, output, version=0)
    (output / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"holds letter\.txt, which is not a version"):
        saved_model.export(translator, output)
    with pytest.raises(InputError, match="cannot write"):
        saved_model.export(translator, output / "letter.txt" / "en-de")
    with pytest.raises(InputError, match=r"beam_size: .* got 0"):
        saved_model.export(translator, tmp_path / "b", beam_size=0)
    with pytest.raises(InputError, match="no line for the warm-up requests has text"):
        saved_model.export(translator, tmp_path / "new", warm_up=["", " "])
    assert not (tmp_path / "new").exists()


@on_tensorflow
@pytest.mark.parametrize(("beam_size", "n_best"), [(1, 4), (2, 2), (5, 5)])
def test_a_greedy_model_has_several_hypotheses_too(
    translator, tmp_path, monkeypatch, beam_size, n_best
):
    from keras_transformer.export import saved_model
    from keras_transformer.export.description import n_best_options

    written = []
    monkeypatch.setattr(saved_model, "_write", lambda *all: written.append(all) or {})
    saved_model.export(translator, tmp_path / "en-de", beam_size=beam_size)
    ((_, _, options, _),) = written
    assert options == translator.decoding.updated({"beam_size": beam_size})
    several = {"beam_size": n_best, "top_beams": n_best}
    assert n_best_options(options) == options.updated(several)


@on_tensorflow
def test_nothing_half_written_is_left(translator, tmp_path, monkeypatch):
    from keras_transformer.export import saved_model

    def write(translator, folder, *arguments):
        (folder / "saved_model.pb").write_text("half")
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(saved_model, "_write", write)
    with pytest.raises(InputError, match="No space left on device"):
        saved_model.export(translator, tmp_path / "en-de")
    assert list((tmp_path / "en-de").iterdir()) == []


@on_tensorflow
def test_the_card_and_the_batching_are_beside_it(exported):
    card = (exported.parent / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# Of a test\n")
    assert "beam size 4" in card
    assert "/models/en-de/1/batching_params.pbtxt" in card
    batching = (exported / "batching_params.pbtxt").read_text(encoding="utf-8")
    field = r"^(\w+)(?: \{ value: (?:\d+|true|false) \}|: true)$"
    fields = re.findall(field, batching, re.MULTILINE)
    # Of `BatchingParameters` in TF Serving's session_bundle_config.proto.
    assert fields == [
        *("max_batch_size", "enable_large_batch_splitting"),
        *("batch_timeout_micros", "max_enqueued_batches", "num_batch_threads"),
        "pad_variable_length_inputs",
    ]
    # Answers whose width is that of their batch cannot be put together from parts.
    assert "enable_large_batch_splitting { value: false }" in batching


@on_tensorflow
def test_the_committed_model_is_small_and_has_its_card():
    files = [path for path in COMMITTED.rglob("*") if path.is_file()]
    assert sum(path.stat().st_size for path in files) <= 9 * 10**6
    card = (COMMITTED / "README.md").read_text(encoding="utf-8")
    assert "BLEU" in card
    assert "docker run" in card
    content = b"".join(path.read_bytes() for path in files)
    assert str(Path.home()).encode() not in content


def interface(folder):
    """Files of a version, its batching, and of each signature names, types and axes."""
    import tensorflow as tf

    def specs(tensors):
        return {
            name: (tensor.dtype, tensor.shape.rank) for name, tensor in tensors.items()
        }

    signatures = {
        name: (
            specs(function.structured_input_signature[1]),
            specs(function.structured_outputs),
        )
        for name, function in tf.saved_model.load(str(folder)).signatures.items()
    }
    files = {path.relative_to(folder) for path in folder.rglob("*") if path.is_file()}
    return files, (folder / "batching_params.pbtxt").read_bytes(), signatures


@on_tensorflow
def test_the_committed_model_is_as_one_exported_now(exported):
    pytest.importorskip("tensorflow_text")
    assert interface(COMMITTED / "1") == interface(exported)
    now, then = (
        (folder / "README.md").read_text(encoding="utf-8").partition("Signatures, each")
        for folder in (exported.parent, COMMITTED)
    )
    assert now[1:] == then[1:]


# === From the other backends ===


TRANSLATE = """
import json
import tensorflow as tf
import tensorflow_text

signatures = tf.saved_model.load({folder!r}).signatures
text = tf.constant(json.loads({lines!r}))
names = ("translate_greedy", "serving_default")
found = [signatures[name](text=text)["translation"].numpy().tolist() for name in names]
print(json.dumps(found, default=bytes.decode))
"""


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.skipif(BACKEND != "torch", reason="of the other backends; once is enough")
def test_another_backend_exports_through_tensorflow(
    translator, sources, run_python, tmp_path
):
    pytest.importorskip("tensorflow_text")
    output = tmp_path / "en-de"
    command = ["keras_transformer.cli.main", "export", str(FOLDER), "--output"]
    options = ["--format", "saved_model", "--beam-size", "2"]
    done = run_python(["-m", *command, str(output), *options])
    assert done.splitlines()[-1] == str(output / "1")
    code = TRANSLATE.format(folder=str(output / "1"), lines=json.dumps(sources))
    greedy, beam = json.loads(run_python(code).splitlines()[-1])
    assert greedy == lines("greedy")
    assert beam == translator.translate(sources, beam_size=2)
    assert "beam size 2" in (output / "README.md").read_text(encoding="utf-8")
    assert sorted(path.name for path in output.iterdir()) == ["1", "README.md"]


@pytest.mark.no_tensorflow
@pytest.mark.skipif(BACKEND != "jax", reason="once is enough")
def test_without_tensorflow_the_message_says_what_to_install(
    translator, tmp_path, monkeypatch
):
    import importlib.util

    from keras_transformer.export import saved_model

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        InputError, match=r"needs the package tensorflow, .* pip install"
    ):
        saved_model.export(translator, tmp_path / "en-de")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(BACKEND != "jax", reason="once is enough")
def test_what_goes_wrong_there_is_told_here(translator, tmp_path):
    pytest.importorskip("tensorflow_text")
    from keras_transformer.export import saved_model

    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match=r"holds letter\.txt, which is not a version"):
        saved_model.export(translator, tmp_path)


# === A client ===


@on_tensorflow
def test_the_client_of_the_card_gets_its_answer(
    said, sources, exported, loaded, capsys
):
    """The card's program as it stands, against a server with the same interface."""
    import tensorflow as tf

    grpc = pytest.importorskip("grpc")
    pytest.importorskip("tensorflow_serving")
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_service_pb2_grpc

    class Service(prediction_service_pb2_grpc.PredictionServiceServicer):
        def Predict(self, request, context):
            signature = loaded[request.model_spec.signature_name]
            inputs = {k: tf.make_ndarray(v) for k, v in request.inputs.items()}
            response = predict_pb2.PredictResponse()
            answer = signature(**{k: tf.constant(v) for k, v in inputs.items()})
            for name, value in answer.items():
                response.outputs[name].CopyFrom(tf.make_tensor_proto(value.numpy()))
            return response

    server = grpc.server(futures.ThreadPoolExecutor(1))
    service = prediction_service_pb2_grpc
    service.add_PredictionServiceServicer_to_server(Service(), server)
    port = server.add_insecure_port("localhost:0")
    server.start()
    try:
        card = (exported.parent / "README.md").read_text(encoding="utf-8")
        (program,) = re.findall(r"```python\n(.*?)```", card, re.DOTALL)
        exec(program.replace("localhost:8500", f"localhost:{port}"), {})
    finally:
        server.stop(None).wait()
    expected = said[sources[0]][0].text
    assert capsys.readouterr().out.splitlines() == [expected]
    (body,) = re.findall(r"curl -d '(.*)' \\\n", card)
    assert json.loads(body) == {"instances": sources[:1]}
    (answer,) = re.findall(r'^\{"predictions": .*', card, re.MULTILINE)
    assert json.loads(answer)["predictions"][0]["translation"] == expected
