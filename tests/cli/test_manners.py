"""What a command line of the field has: help, completion, one-line faults, a prompt."""

import contextlib
import dataclasses
import gc
import io
import json
import os
import runpy
import sys

import pytest

from keras_transformer.cli import allocator
from keras_transformer.cli import main
from keras_transformer.cli import reading
from keras_transformer.data.line_reader import record_of
from keras_transformer.errors import InputError
from keras_transformer.training import run

pytestmark = pytest.mark.no_backend


def test_help_is_the_same_by_its_short_name(invoke):
    for command in ((), ("translate",), ("train",)):
        short, long = (invoke(*command, flag) for flag in ("-h", "--help"))
        assert short.stdout == long.stdout and short.exit_code == 0
    _, _, commands = invoke("-h").stdout.partition("Commands:")
    assert "train" in commands and "..." not in commands  # no sentence is cut


def test_a_shell_can_complete(invoke, monkeypatch):
    monkeypatch.setenv("_KERAS_TRANSFORMER_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", "keras-transformer tra")
    monkeypatch.setenv("COMP_CWORD", "1")
    monkeypatch.setattr(sys, "argv", ["keras-transformer"])
    found = invoke_program()
    assert found.split() == ["train", "translate"]


def invoke_program():
    text = io.StringIO()
    with contextlib.redirect_stdout(text), pytest.raises(SystemExit):
        main.application()(prog_name="keras-transformer")
    return text.getvalue()


def test_python_runs_the_package(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["keras_transformer", "--version"])
    monkeypatch.setattr(gc, "freeze", lambda: None)  # this process goes on
    monkeypatch.setenv(allocator.RESTART, "never")
    with pytest.raises(SystemExit) as end:
        runpy.run_module("keras_transformer", run_name="__main__", alter_sys=False)
    assert not end.value.code
    assert capsys.readouterr().out.startswith("keras-transformer 0.")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("translate",), "Missing argument 'MODEL'; see root translate"),
        (("translate", "m", "--beam", "2"), "No such option: --beam"),
        (("translate", "m", "--beam-size", "x"), "Invalid value for '--beam-size'"),
        (("export", "m", "--format", "tflite", "--output", "o"), "'tflite' is not one"),
        (("export", "m", "--output", "o"), "Missing option '--format'"),
        (("tranlate", "m"), "No such command 'tranlate'"),
        (("translate", "m", "a", "--input", "b"), "give the input once, got a and b"),
        (("translate", "m", "a", "b"), "unexpected extra argument"),
    ],
)
def test_a_fault_of_arguments_is_one_line(words, message, invoke):
    result = invoke(*words)
    assert (result.exit_code, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("error: ") and message in line
    assert line.endswith(" --help") and "Value error" not in line


def test_no_command_is_answered_with_the_help(invoke):
    result = invoke()
    assert result.exit_code == 2 and "Usage: " in result.output


def test_the_input_may_be_an_argument(model, invoke, tmp_path):
    (tmp_path / "lines").write_text("a\nb\n")
    result = invoke("translate", model, tmp_path / "lines")
    assert result.stdout == "A\nB\n"


@pytest.mark.skipif(os.name == "nt", reason="needs a terminal of Unix")
def test_a_terminal_gets_a_prompt_for_each_line():
    prompts = []
    ours, theirs = os.pipe()
    lines = reading._Arrivals(ours, "input", prompts.append)
    os.write(theirs, b"one\ntwo\n")
    arrivals = iter(lines)
    assert [next(arrivals), next(arrivals)] == [b"one", b"two"]
    assert prompts == ["> "]  # both had come
    os.close(theirs)
    assert not list(arrivals) and prompts == ["> ", "> ", "\n"]
    os.close(ours)


# === Config keys ===


def keys(invoke, *words):
    lines = invoke("train", "--keys", *words).stdout.splitlines()
    return [line.split()[0] for line in lines if not line.startswith(" ")]


def test_all_config_keys_are_listed_once(invoke):
    found = keys(invoke)
    assert len(found) == len(set(found)) > 100
    assert {"training.steps", "model.hidden_dim", "data.train[].source"} <= {*found}
    assert {"training.optimizer.beta_2", "output", "decoding.beam_size"} <= {*found}


def test_keys_are_found_by_words_and_by_what_others_call_them(invoke):
    assert "training.micro_batches" in keys(invoke, "gradient", "accumulation")
    assert "training.learning_rate" in keys(invoke, "lr")
    assert "data.batch_tokens" in keys(invoke, "batch-size")
    with pytest.raises(InputError, match="no config key goes with kubernetes"):
        invoke("train", "--keys", "kubernetes")


# === compare RUN RUN ===


@pytest.fixture
def runs(tmp_path):
    """Two finished runs with one test text, and a third with another one."""
    (tmp_path / "test.en").write_text("a b c d e\nf g h i j\n")
    (tmp_path / "other.en").write_text("x\ny\n")
    folders = []
    for name, text in (("one", "a b c d e"), ("two", "a b c"), ("three", "x")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "test.hypotheses.txt").write_text(f"{text}\nf g h i j\n")
        reference = str(tmp_path / ("other.en" if name == "three" else "test.en"))
        corpus = {"source": [reference], "target": [reference]}
        data = {"train": [corpus], "test": corpus}
        (folder / "config.yaml").write_text(json.dumps({"data": data}))
        record = dataclasses.asdict(record_of(reference))
        (folder / "corpus.json").write_text(json.dumps({"test": [record, record]}))
        folders.append(folder)
    return folders


def test_two_runs_are_compared_on_their_test_text(runs, invoke, tmp_path):
    one, two, three = runs
    result = invoke("compare", one, two, "--confidence", 100)
    lines = result.stdout.splitlines()
    assert len(lines) == 6 and lines[0].startswith(f"{one}: BLEU = 100.00")
    assert lines[3].startswith(f"{two}: BLEU = ") and ", p = " in lines[3]
    with pytest.raises(InputError, match="three was tested on another text than"):
        invoke("compare", one, three)
    (tmp_path / "test.en").write_text("a b c d e\nanother line\n")
    with pytest.raises(
        InputError, match=r"one was tested on another text \(data\.test"
    ):
        invoke("compare", one, two)
    (one / "test.hypotheses.txt").unlink()
    with pytest.raises(InputError, match=r"one has no test\.hypotheses\.txt; give run"):
        invoke("compare", one, two)
    result = invoke("compare", two / "test.hypotheses.txt", two)
    assert "is a file of translations; give its references" in result.stderr


# === --import ===


def test_modules_are_imported_before_the_model(model, invoke, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "noting_module.py").write_text("print('imported')")
    assert "imported\n" in invoke("info", model, "--import", "noting_module").stdout
    with pytest.raises(InputError, match="--import: there is no module absent_module"):
        invoke("info", model, "--import", "absent_module")
    del sys.modules["noting_module"]


OWN_KIND = {"model": {"kind": "my_module.Own", "preset": "tiny"}}


def test_a_config_in_a_run_folder_imports_nothing(model, invoke, tmp_path, monkeypatch):
    trained = []
    monkeypatch.setattr(run, "train", trained.append)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    (tmp_path / "my_module.py").write_text("number = 7")
    (tmp_path / "corpus.json").write_text("{}")
    data = {"phrasebook": "en-de"}
    path = tmp_path / "config.yaml"
    callbacks, loss = {"callbacks": ["my_module:f"]}, {"loss": "my_module:f"}
    for key in ({"training": callbacks}, {"training": loss}, OWN_KIND):
        path.write_text(json.dumps({"data": data, **key}))
        with pytest.raises(InputError, match="give --import my_module"):
            invoke("train", path)
        assert "my_module" not in sys.modules and not trained
    path.rename(tmp_path / "mine.yaml")  # a config that somebody wrote
    with pytest.raises(InputError, match="module my_module has no model class"):
        invoke("train", tmp_path / "mine.yaml")
    del sys.modules["my_module"]
