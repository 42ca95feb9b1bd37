"""What README.md says is true: its code runs, its files exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.no_backend
def test_the_readme_is_short_and_names_files_that_exist():
    assert len(README.splitlines()) <= 200
    for path in re.findall(
        r"`((?:tutorials|keras_transformer|benchmarks|saved_models)/[\w/.-]*)`", README
    ):
        assert (ROOT / path).exists(), path


@pytest.mark.no_backend
def test_ci_runs_the_test_command():
    assert "python3 tests/run.py\n" in README
    assert "python3 tests/run.py" in (ROOT / ".ci" / "run").read_text()


@pytest.mark.no_backend
def test_tf_serving_is_asked_as_in_the_card_of_the_committed_model():
    """`docker run` with the same options, and a request to the same address."""
    card = ROOT / "saved_models" / "phrasebook-en-de" / "README.md"
    options = []
    for text in (README, card.read_text(encoding="utf-8")):
        (command,) = re.findall(r"docker run (.*?[^\\])\n", text, flags=re.DOTALL)
        command = command.replace("$PWD/saved_models/", "$PWD/")
        options.append(sorted(command.replace("\\\n", " ").split()))
    assert options[0] == options[1]
    assert "localhost:8501/v1/models/phrasebook-en-de:predict" in README
    (batching,) = re.findall(r"--batching_parameters_file=/models/(\S+)", README)
    assert (ROOT / "saved_models" / batching).is_file()


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    """With a fraction of its text and epochs."""
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    smaller = code.replace("epochs=5", "epochs=1").replace(
        "tokenizer = ",
        "train = kt.data.ParallelText(train.source[:900], "
        "train.target[:900])\ntokenizer = ",
    )
    assert smaller.count("900") == 2
    monkeypatch.chdir(tmp_path)
    exec(compile(smaller, "README.md", "exec"), {})
    assert (tmp_path / "models" / "en-de" / "config.json").is_file()
    assert capsys.readouterr().out
