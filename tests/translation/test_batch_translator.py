"""Batches for other engines: their forms, their splitting, and local workers."""

import importlib.util
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from keras_transformer.batch_translator import BatchTranslator
from keras_transformer.errors import InputError
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.static_shapes import batches_by_tokens
from keras_transformer.translator import Translator
from reference.strange_folder import edit

pytestmark = pytest.mark.one_backend
ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "tests" / "fixtures" / "en-de.format-1"
SOURCES = (FOLDER / "source.txt").read_text(encoding="utf-8").splitlines()
GREEDY = (FOLDER / "greedy.txt").read_text(encoding="utf-8").splitlines()


@pytest.fixture(scope="module")
def translator():
    return BatchTranslator(FOLDER, beam_size=1)  # which compiles sooner


def test_every_form_of_a_batch_comes_back_in_its_form(translator):
    texts, right = [*SOURCES[:3], "", None], [*GREEDY[:3], "", None]
    assert translator(texts) == right
    array = translator(np.array(texts, object))
    assert array.dtype == object and array.tolist() == right
    batch = {"id": np.arange(5), "source": np.array(texts, object)}
    found = translator(batch)
    assert list(found) == ["id", "source", "translation"]
    assert found["id"] is batch["id"]
    assert found["translation"].tolist() == right
    assert translator(np.array(SOURCES[:1])).tolist() == GREEDY[:1]  # NumPy strings
    assert translator([]) == [] and len(translator(np.array([], object))) == 0


def test_sentences_of_a_line_are_translated_one_by_one():
    pytest.importorskip("sentencex", reason="needs sentencex")
    translate = BatchTranslator(FOLDER, beam_size=1, split_sentences=True)
    line, right = (" ".join(lines[:2]) for lines in (SOURCES, GREEDY))
    assert translate([line, None]) == [right, None]


def test_a_frame_of_pandas_comes_back_as_one(translator):
    pandas = pytest.importorskip("pandas")
    columns = {"id": [3, 1, 2, 0], "source": [SOURCES[0], None, np.nan, SOURCES[1]]}
    frame = pandas.DataFrame(columns, index=[7, 5, 6, 4])
    right = [GREEDY[0], None, None, GREEDY[1]]
    for texts in (frame, frame.astype({"source": "string"})):  # NaN, and pandas.NA
        found = translator(texts)
        assert list(found.columns) == ["id", "source", "translation"]
        assert found.index.tolist() == [7, 5, 6, 4]
        assert found["id"].tolist() == columns["id"]
        filled = found["translation"].astype(object)
        assert filled.where(filled.notna(), None).tolist() == right
        assert "translation" not in texts.columns
    series = translator(frame["source"])
    assert type(series) is pandas.Series and series.index.tolist() == [7, 5, 6, 4]
    assert series.tolist()[0] == GREEDY[0]
    with pytest.raises(InputError, match="the columns source, source, but several"):
        translator(frame[["source", "source"]])


def test_a_table_of_arrow_comes_back_as_one(translator):
    arrow = pytest.importorskip("pyarrow")
    columns = {"id": [1, 2, 3], "source": [SOURCES[0], None, SOURCES[1]]}
    right = {**columns, "translation": [GREEDY[0], None, GREEDY[1]]}
    for form in (arrow.Table, arrow.RecordBatch):
        found = translator(form.from_pydict(columns))
        assert type(found) is form and found.to_pydict() == right
        assert translator(found).to_pydict() == right  # in place of the old column
        assert translator(found.slice(0, 0)).num_rows == 0
        with pytest.raises(InputError, match="the columns id, but no 'source'"):
            translator(form.from_pydict({"id": [1]}))


def test_what_is_not_there_is_none(translator):
    texts = [float("nan"), np.float32("nan"), SOURCES[0], None]
    right = [None, None, GREEDY[0], None]
    assert translator(texts) == right and translator(tuple(texts)) == right
    assert translator({"source": texts})["translation"].tolist() == right


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("batch", "message"),
    [
        ({"text": np.array(["a"])}, "the columns text, but no 'source'"),
        ({"source": "a b"}, "the column 'source' is one string; give an array, or"),
        ("a b", "a batch is str, not columns or a list of texts"),
        (b"a b", "a batch is bytes, not columns or a list of texts"),
        (7, "a batch is int, not columns or a list of texts"),
        (["a", 7], "line 2 of a batch is int, not text"),
        (np.array([b"a"]), "line 1 of a batch is bytes, not text"),
        ({"source": [["a"]]}, "line 1 of a batch is list, not text"),
    ],
)
def test_what_is_no_batch_is_named(batch, message):
    with pytest.raises(InputError, match=message):
        BatchTranslator("no/folder")(batch)


def test_a_line_that_is_too_long_is_named_by_its_place(translator):
    with pytest.raises(InputError, match=r"line 4 has \d+ tokens, but the model takes"):
        translator([*SOURCES[:2], None, "a " * 3000, "a"])


def test_it_travels_small_and_loads_where_it_is_used(translator):
    translator(SOURCES[:1])
    there = pickle.loads(pickle.dumps(translator))
    assert len(pickle.dumps(translator)) < 1000
    assert there._translator is None and translator._translator is not None
    assert there.make_predict_function()(SOURCES[:2]) == GREEDY[:2]


def test_batches_are_split_by_tokens(translator, monkeypatch):
    splitting = BatchTranslator(FOLDER, beam_size=1, batch_tokens=64)
    sizes = []
    translate = BatchSearch._translate

    def counted(self, sentences, *arguments):
        sizes.append(len(sentences))
        return translate(self, sentences, *arguments)

    monkeypatch.setattr(BatchSearch, "_translate", counted)
    assert splitting(SOURCES[:6]) == GREEDY[:6]
    assert max(sizes) < 6 and sum(sizes) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"sampling": True, "seed": 3, "mbr": "chrf", "mbr_candidates": 3},
        {"beam_size": 1, "long_lines": "split", "max_source_length": 9},
    ],
    ids=["sampling", "split"],
)
def test_options_are_those_of_a_translator(options):
    lines = SOURCES[:5]
    right = Translator.load(FOLDER).translate(lines, max_length=12, **options)
    # Lines keep their numbers, which samples depend on, though 64 tokens are few.
    translate = BatchTranslator(FOLDER, batch_tokens=64, max_length=12, **options)
    assert translate([*lines, None]) == [*right, None]


def test_options_that_do_not_go_together_are_told_with_the_first_batch():
    with pytest.raises(InputError, match="top_k 3 needs sampling"):
        BatchTranslator(FOLDER, top_k=3)(SOURCES[:1])


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("beam_sise", "unknown option beam_sise; did you mean 'beam_size'?"),
        ("prefixes", "prefixes belong to single lines, .* to Translator.translate"),
    ],
)
def test_a_wrong_name_is_told_at_once(option, message):
    with pytest.raises(InputError, match=message):
        BatchTranslator("no/folder", **{option: None})


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"batch_tokens": 0}, "batch_tokens must be a whole number above 0, got 0"),
        ({"batch_size": True}, "batch_size must be a whole number above 0, got True"),
        ({"beam_size": 0}, "beam_size: .* greater than or equal to 1, got 0"),
        ({"long_lines": "drop"}, "long_lines: Input should be 'error', 'truncate' or"),
    ],
)
def test_a_wrong_value_is_told_at_once(options, message):
    with pytest.raises(InputError, match=message):
        BatchTranslator("no/folder", **options)


@pytest.mark.no_backend
def test_a_batch_holds_no_more_tokens_than_it_may():
    lengths = [1, 200, 7, 33, 33, 33, 33, 33, 2000, 8]
    batches = [rows.tolist() for rows in batches_by_tokens(lengths, 256, 4)]
    assert batches == [[8], [1], [3, 4, 5, 6], [7, 9, 2, 0]]
    assert batches_by_tokens([], 256, 4) == []
    with pytest.raises(InputError, match="batch_tokens 0 and batch_size 4"):
        batches_by_tokens([1], 0, 4)


@pytest.mark.no_backend
def test_making_it_loads_no_keras(run_python):
    code = (
        "import keras_transformer as kt, sys\n"
        "kt.BatchTranslator('models/en-de', beam_size=1)\n"
        "print('keras' in sys.modules)"
    )
    assert run_python(code) == "False\n"


def recipe(name, tmp_path, text, *options):
    """Runs a program of `tutorials/many_machines`; its model searches greedily."""
    source, model = tmp_path / "source.txt", tmp_path / "model"
    source.write_bytes(text.encode())
    shutil.copytree(FOLDER, model)
    edit(model, "decoding", beam_size=1)
    command = [sys.executable, ROOT / "tutorials" / "many_machines" / name, model]
    command += [source, tmp_path / "out.txt", "--batch-size", "20", *options]
    variables = {
        "PYTHONPATH": str(ROOT),
        "KERAS_BACKEND": "torch",  # which compiles nothing
        "RAY_USAGE_STATS_ENABLED": "0",
        "RAY_worker_niceness": "0",  # else its workers wait for the tests beside them
    }
    return subprocess.Popen(
        [*map(str, command)],
        env={**os.environ, **variables},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
    )


def repeated(copies):
    """The fixture's text with all that a file may have, and its translation."""
    first, *rest = SOURCES * copies
    lines = [f"\ufeff{first}\r", *rest, "a\rb" + " a" * 1100]  # is split
    return "".join(f"{line}\n" for line in lines), GREEDY * copies


def check(output, expected):
    """Fails unless each line is there once, and one for the line that was added."""
    lines = output.read_bytes().decode().split("\n")
    assert lines[:-2] == expected
    assert lines[-2] and lines[-1] == ""


def kill_a_worker(seconds=120):
    """Kills one process that translates; says whether there was one."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                title = path.read_bytes()
            except OSError:
                continue
            if b"ray::" in title and b"MapWorker" in title and b"BatchTr" in title:
                os.kill(int(path.parent.name), signal.SIGKILL)
                return True
        time.sleep(0.1)
    return False


ray_is_there = pytest.mark.skipif(
    not importlib.util.find_spec("ray"), reason="needs Ray"
)
spark_is_there = pytest.mark.skipif(
    not (importlib.util.find_spec("pyspark") and shutil.which("java")),
    reason="needs Spark and Java",
)


@pytest.mark.slow
@pytest.mark.no_backend
@ray_is_there
def test_ray_gives_each_line_once_in_its_order_though_a_worker_is_killed(tmp_path):
    text, expected = repeated(5)
    process = recipe("translate_with_ray.py", tmp_path, text)
    deaths = []
    thread = threading.Thread(target=lambda: deaths.append(kill_a_worker()))
    thread.start()
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    thread.join()
    assert deaths == [True]
    check(tmp_path / "out.txt", expected)


@pytest.mark.slow
@pytest.mark.no_backend
@spark_is_there
def test_spark_gives_each_line_once_in_its_order(tmp_path):
    text, expected = repeated(3)
    process = recipe("translate_with_spark.py", tmp_path, text)
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    check(tmp_path / "out.txt", expected)


recipes = pytest.mark.parametrize(
    "name",
    [
        pytest.param("translate_with_ray.py", marks=ray_is_there, id="ray"),
        pytest.param("translate_with_spark.py", marks=spark_is_there, id="spark"),
    ],
)


@pytest.mark.slow
@pytest.mark.no_backend
@recipes
def test_a_job_that_fails_leaves_nothing(name, tmp_path):
    text = f"a\n{'a ' * 1100}\n"
    process = recipe(name, tmp_path, text, "--long-lines", "error")
    output, _ = process.communicate(timeout=600)
    assert process.returncode and "but the model takes at most 1024" in output
    assert {path.name for path in tmp_path.iterdir()} == {"source.txt", "model"}


@pytest.mark.slow
@pytest.mark.no_backend
@recipes
def test_nothing_to_translate_is_a_file_without_lines(name, tmp_path):
    process = recipe(name, tmp_path, "")
    output, _ = process.communicate(timeout=600)
    assert process.returncode == 0, output
    assert (tmp_path / "out.txt").read_bytes() == b""
