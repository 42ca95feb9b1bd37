"""Tests that files of earlier versions load and say the same.

They are never written again. With EXACT=1 numbers are compared bit for bit, which holds
on processors like the one that wrote them; else within rounding.
"""

import hashlib
import importlib
import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer.export.programs import __file__ as PROGRAMS
from keras_transformer.models.weights import weight_values
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from reference.fixture_folder import BLOCKED
from reference.fixture_folder import lines
from reference.marks import all_on_one_backend

FIXTURES = Path(__file__).with_name("fixtures")
MODELS = ("transformer", "pre_norm", "recurrent", "convolutional")
#: Of the formats that have programs beside them: what these need.
RUNTIMES = {
    "onnx": "onnxruntime",
    "litert": "ai_edge_litert",
    "ctranslate2": "ctranslate2",
}
EXACT = bool(os.environ.get("EXACT"))
BACKEND = keras.backend.backend()
RUNS = [BACKEND, *(["torch_micro_batches"] if BACKEND == "torch" else [])]

FIRST_ON_EACH_BACKEND = pytest.mark.parametrize(
    "name", all_on_one_backend(MODELS, but=MODELS[:1])
)


def assert_same(actual, expected, tolerance=2e-5, exact=EXACT):
    if exact:
        np.testing.assert_array_equal(actual, expected)
    else:
        np.testing.assert_allclose(actual, expected, rtol=tolerance, atol=tolerance)


def ids(seed):
    """The ids that the fixtures were given when they were made."""
    random = np.random.default_rng(seed)
    rows = random.integers(4, 400, (3, 7), "int32")
    for row, length in enumerate((7, 5, 3)):
        rows[row, length - 1] = 2
        rows[row, length:] = 0
    return rows


def expected_of(name):
    path = FIXTURES / "folders" / f"expected.{BACKEND}.json"
    return json.loads(path.read_text("utf-8"))[name]


def assert_same_model(model, name, exact=EXACT):
    with np.load(FIXTURES / "folders" / f"{name}.weights.npz") as weights:
        arrays = weight_values(model)
        assert arrays.keys() == set(weights)
        for key, array in arrays.items():
            np.testing.assert_array_equal(array, weights[key])
    expected = expected_of(name)
    logits = model.predict({"source": ids(1), "target": ids(2)}, verbose=0)
    assert_same(logits[:, :, :5].ravel(), expected["logits_first"], exact=exact)
    total = np.sum(logits, dtype="float64")
    assert_same(total, expected["logits_sum"], tolerance=1e-4, exact=exact)


@FIRST_ON_EACH_BACKEND
def test_keras_files_of_earlier_versions_load(name):
    pytest.importorskip("torch")  # Keras names the optimizer of the backend that saved
    model = keras.saving.load_model(FIXTURES / "keras_files" / f"{name}.keras")
    assert_same_model(model, name, exact=False)  # compiled, it rounds otherwise
    assert isinstance(model.loss, kt.training.LabelSmoothedCrossEntropy)


@FIRST_ON_EACH_BACKEND
def test_model_folders_of_earlier_versions_load(name):
    translator = kt.Translator.load(FIXTURES / "folders" / f"{name}.format-1")
    assert_same_model(translator.model, name)
    expected = expected_of(name)
    scores = translator.score(lines("source")[:6], lines("greedy")[:6])
    assert_same([score.log_probability for score in scores], expected["scores"])
    found = translator.translate(lines("source")[:6], beam_size=1, max_length=30)
    assert found == expected["greedy"]


@pytest.mark.export
@pytest.mark.one_backend
@pytest.mark.parametrize("beam_size", [1, 4])
@pytest.mark.parametrize("programs", ["of then", "of today"])
@pytest.mark.parametrize("kind", RUNTIMES)
def test_exports_of_earlier_versions_run(kind, programs, beam_size, tmp_path):
    """With the programs that were written beside them, and with those of today."""
    pytest.importorskip(RUNTIMES[kind])
    folder = shutil.copytree(FIXTURES / "exports" / kind, tmp_path / "model")
    for name in ("translate.py", *(["search.py"] if kind != "ctranslate2" else [])):
        shutil.copy(FIXTURES / "exports" / "programs" / name, folder)
    if programs == "of today":
        written = importlib.import_module(f"keras_transformer.export.{kind}")._PROGRAMS
        for source, name in written.items():
            shutil.copy(Path(PROGRAMS).with_name(source), folder / name)
    done = subprocess.run(
        [sys.executable, "translate.py", "--scores", f"--beam-size={beam_size}"],
        cwd=folder,
        input="".join(f"{line}\n" for line in lines("source")[:8]),
        capture_output=True,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr
    assert_same_hypotheses(done.stdout.splitlines(), f"{kind}, beam {beam_size}")


def assert_same_hypotheses(rows, name):
    expected = json.loads((FIXTURES / "exports" / "expected.json").read_text("utf-8"))
    pairs = [[line.split("\t") for line in said] for said in (rows, expected[name])]
    actual, wanted = ([text for _, text in rows] for rows in pairs)
    assert actual == wanted
    actual, wanted = ([float(score) for score, _ in rows] for rows in pairs)
    np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=2e-6)


@pytest.mark.export
@pytest.mark.one_backend("tensorflow")
def test_a_saved_model_of_an_earlier_version_runs(run_python):
    folder = FIXTURES / "exports" / "saved_model" / "1"
    said = run_python(
        f"""
import importlib.util, json
from pathlib import Path
import numpy as np, tensorflow as tf
text = Path(importlib.util.find_spec("tensorflow_text").origin).parent
tf.load_op_library(str(text / "python" / "ops" / "_sentencepiece_tokenizer.so"))
signature = tf.saved_model.load({str(folder)!r}).signatures["serving_default"]
found = signature(tf.constant(json.loads({json.dumps(lines("source")[:8])!r})))
print(json.dumps({{
    key: [
        [v.decode() if isinstance(v, bytes) else float(v) for v in np.ravel(row)]
        for row in value.numpy()
    ]
    for key, value in found.items()
}}))
""",
        block=[name for name in BLOCKED if name != "tensorflow"],
    )
    said = json.loads(said.splitlines()[-1])
    expected = json.loads((FIXTURES / "exports" / "expected.json").read_text("utf-8"))
    assert said.keys() == expected["saved_model"].keys()
    for key, rows in expected["saved_model"].items():
        if isinstance(rows[0][0], str):
            assert said[key] == rows
        else:
            np.testing.assert_allclose(said[key], rows, rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("name", RUNS)
def test_runs_of_earlier_versions_go_on_with_their_own_batches(
    name, tmp_path, monkeypatch
):
    """The losses of the steps after the checkpoint are those of an unbroken run.

    Of all 20, but where almost each is of a new shape and is compiled.
    """
    folder = tmp_path / "run"
    shutil.copytree(FIXTURES / "runs" / name, folder)
    move_to(folder)
    encoded = sorted(path.name for path in folder.glob("run/encoded/*"))
    config = load_config(folder / "config.yaml", [f"output={folder / 'run'}"])
    last = 30 if BACKEND == "torch" or os.environ.get("EVERY_TEST") else 16
    if last == 30:
        train(config)
    else:
        monkeypatch.setattr(running, "Progress", stopping_at(last))
        with pytest.raises(running.Interrupted):
            train(config)
    assert sorted(path.name for path in folder.glob("run/encoded/*")) == encoded
    text = (folder / "run" / "logs" / "metrics.jsonl").read_text("utf-8")
    logged = {line["step"]: line["loss"] for line in map(json.loads, text.splitlines())}
    losses = json.loads((folder / "losses.json").read_text())
    # Other batches or dropout masks differ by 1e-2 and more.
    steps = range(11, last + 1)
    losses = losses[: len(steps)]
    assert_same([logged[step] for step in steps], losses, tolerance=2e-4)


def stopping_at(step):
    class Stopping(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == step:
                signal.raise_signal(signal.SIGTERM)

    return Stopping


def move_to(folder):
    """Says where the texts lie now, and that they are as old as they were."""
    for path in (*folder.rglob("*.json"), folder / "run" / "config.yaml"):
        text = path.read_text("utf-8")
        path.write_text(text.replace("FOLDER", str(folder)), "utf-8")
    records = json.loads((folder / "run" / "corpus.json").read_text("utf-8"))
    for record in (*records["train"], *records["validation"]):
        os.utime(record["path"], ns=(record["mtime_ns"], record["mtime_ns"]))
    # The name of an encoded corpus is a digest of its settings, paths included.
    (encoded,) = (path for path in (folder / "run" / "encoded").iterdir())
    settings = json.loads((encoded / "manifest.json").read_text("utf-8"))["settings"]
    digest = hashlib.sha256(json.dumps(settings).encode()).hexdigest()
    encoded.rename(encoded.with_name(digest[:16]))
