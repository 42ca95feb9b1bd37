"""`distill` and `backtranslate` with a tiny model, and configs that take their text."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models import Transformer
from keras_transformer.training import load_config
from keras_transformer.training.corpora import Corpora
from keras_transformer.translator import Translator
from reference import configs

ROOT = Path(__file__).resolve().parents[2]
LINES = ["a house", "ein Haus", "Haus a house", "a", "house house"]
CONFIG = "data: {train: [{source: in.txt, target: out.txt, tag: <bt>}]}\n"


@pytest.fixture(scope="module")
def translator():
    tokenizer = Tokenizer.train(["ein Haus a house"] * 9, 270)
    config = configs.tiny(vocabulary_size=270)
    return Translator(Transformer(config), tokenizer, beam_size=2, max_length=6)


@pytest.fixture
def project(translator, tmp_path):
    translator.save(tmp_path / "model")
    text = "".join(f"{line}\n" for line in LINES)
    for name in ("in.txt", "out.txt"):
        (tmp_path / name).write_text(text, encoding="utf-8")
    (tmp_path / "run.yaml").write_text(CONFIG, encoding="utf-8")
    return tmp_path


def read(folder, side):
    files = sorted(folder.glob(f"{side}-*.txt"))
    text = b"".join(file.read_bytes() for file in files).decode()
    return text.removesuffix("\n").split("\n")


@pytest.mark.one_backend
def test_a_teacher_translates_the_text_of_a_config(project, translator, invoke):
    output = project / "distilled"
    options = ["--output", output, "--shard-lines", 2, "--seed", 3, "--sampling"]
    run = ["distill", project / "model", project / "run.yaml"]
    invoke(*run, *options, "--part", "2/2")
    assert not (output / "manifest.json").exists()
    result = invoke(*run, *options)
    assert f"{output}: 5 lines in 3 shards" in result.stderr
    assert read(output, "source") == LINES
    samples = translator.translate(LINES, sampling=True, seed=3)
    assert read(output, "target") == samples
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["options"]["seed"] == 3 and manifest["options"]["engine"] == "keras"
    with pytest.raises(InputError, match=r"begun with another request \(seed: 3 -> 4"):
        invoke(*run, *options[:5], 4, "--sampling")


@pytest.mark.one_backend
def test_other_columns_of_a_file_are_another_request(project, invoke):
    rows = "".join(f'{{"de": "{line}", "en": "a house"}}\n' for line in LINES)
    (project / "text.jsonl").write_text(rows, encoding="utf-8")
    arguments = ["distill", project / "model", project / "run.yaml"]
    arguments += ["--output", project / "distilled"]
    for columns, message in (
        ("de, en", None),
        ("en, de", r"columns: \[\['de', 'en'\]"),
    ):
        text = f"data: {{train: [{{jsonl: text.jsonl, columns: [{columns}]}}]}}"
        (project / "run.yaml").write_text(text, encoding="utf-8")
        if message is None:
            invoke(*arguments)
            assert read(project / "distilled", "source") == LINES
            continue
        with pytest.raises(InputError, match=message):
            invoke(*arguments)


@pytest.mark.one_backend
def test_text_is_translated_back_and_a_config_takes_it(project, translator, invoke):
    output = project / "back"
    more = [project / "in.txt", project / "out.txt", "--output", output]
    invoke("backtranslate", project / "model", *more)
    assert read(output, "target") == LINES * 2
    assert read(output, "source") == translator.translate(LINES) * 2
    text = "data: {train: [{manifest: back, tag: <bt>, weight: 0.5}]}"
    (project / "student.yaml").write_text(text, encoding="utf-8")
    config = load_config(project / "student.yaml")
    corpora = Corpora(config.data)
    assert corpora.sample().target == LINES * 2
    assert len(corpora.fingerprint()["train"]) == 2
    (output / "source-00001.txt").write_text("a\n" * 10, encoding="utf-8")
    with pytest.raises(InputError, match=r"source-00001\.txt is not the file that"):
        Corpora(config.data).fingerprint()


@pytest.mark.no_backend
def test_wrong_arguments_are_named(project, invoke):
    arguments = ["distill", project / "model", project / "run.yaml", "--output", "x"]
    for part in ("0/2", "3/2", "1", "a/b"):
        result = invoke(*arguments, "--part", part)
        assert result.exit_code == 2 and "expected K/N" in result.stderr
    corpus = "{source: in.txt, target: out.txt, source_language: en, target_language"
    text = f"data: {{train: [{corpus}: de}}, {corpus}: fr}}]}}"
    (project / "run.yaml").write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="several pairs of languages; distill one"):
        invoke(*arguments)


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("corpus", "message"),
    [
        ("{manifest: back}", r"back has no manifest\.json"),
        ("{manifest: back, source: a, target: b}", "give source and target, or one"),
        ("{manifest: back, columns: [1, 2]}", "columns belong"),
    ],
)
def test_a_config_names_a_translated_corpus_alone(corpus, message, tmp_path):
    (tmp_path / "run.yaml").write_text(f"data: {{train: [{corpus}]}}", encoding="utf-8")
    (tmp_path / "back").mkdir()
    with pytest.raises(InputError, match=message):
        Corpora(load_config(tmp_path / "run.yaml").data)


def kill_a_part(folder, deaths, seconds=120):
    """Kills one process that has a part and this folder, once."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                arguments = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if {b"1/2", os.fsencode(folder)} <= set(arguments):
                os.kill(int(path.parent.name), signal.SIGKILL)
                return deaths.append(True)
        time.sleep(0.1)


@pytest.mark.slow
@pytest.mark.one_backend
@pytest.mark.skipif(not importlib.util.find_spec("ray"), reason="needs Ray")
def test_ray_shares_a_corpus_though_a_part_is_killed(project, translator):
    output, deaths = project / "distilled", []
    program = ROOT / "tutorials" / "many_machines" / "distill_with_ray.py"
    command = [program, "distill", project / "model", project / "run.yaml"]
    command += ["--output", output, "--shard-lines", 1]
    variables = {
        "PYTHONPATH": str(ROOT),
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else its workers wait for the tests beside them
    }
    thread = threading.Thread(target=kill_a_part, args=(output, deaths))
    thread.start()
    done = subprocess.run(
        [sys.executable, *map(str, command)],
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        encoding="utf-8",
        timeout=600,
    )
    thread.join()
    assert done.returncode == 0, done.stderr
    assert deaths == [True]
    assert f"{output}: 5 lines in 5 shards" in done.stderr
    assert read(output, "source") == LINES
    assert read(output, "target") == translator.translate(LINES)
    manifest = json.loads((output / "manifest.json").read_text())
    assert manifest["num_lines"] == len(LINES)
