"""What README.md says is true: its code runs, its files exist."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEPLOYMENT = ROOT / "tutorials" / "deployment" / "README.md"


@pytest.mark.no_backend
def test_the_readme_is_short_and_names_files_that_exist():
    assert len(README.splitlines()) <= 150
    links = re.findall(r"\]\((?!https?:)([^)#]+)", README)
    paths = re.findall(r"`((?:tutorials|keras_transformer)/[\w/.-]*)`", README)
    assert len(links) > 10
    for path in (*links, *paths):
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
    serving = DEPLOYMENT.read_text(encoding="utf-8")
    for text in (serving, card.read_text(encoding="utf-8")):
        (command,) = re.findall(r"docker run (.*?[^\\])\n", text, flags=re.DOTALL)
        command = command.replace("$PWD/saved_models/", "$PWD/")
        options.append(sorted(command.replace("\\\n", " ").split()))
    assert options[0] == options[1]
    assert "localhost:8501/v1/models/phrasebook-en-de:predict" in serving
    (batching,) = re.findall(r"--batching_parameters_file=/models/(\S+)", serving)
    assert (ROOT / "saved_models" / batching).is_file()


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_python_example_runs(tmp_path, monkeypatch, capsys):
    """With a fraction of its text and epochs."""
    (code,) = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    smaller = code.replace("epochs=3", "epochs=1").replace(
        "tokenizer = ",
        "train = kt.data.ParallelText(train.source[:900], "
        "train.target[:900])\ntokenizer = ",
    )
    assert smaller.count("900") == 2
    monkeypatch.chdir(tmp_path)
    exec(compile(smaller, "README.md", "exec"), {})
    assert (tmp_path / "models" / "en-de" / "config.json").is_file()
    assert capsys.readouterr().out


@pytest.mark.one_backend
@pytest.mark.slow
def test_your_own_text_is_trained_evaluated_translated_and_served(tmp_path):
    """The config, smaller, and the commands as they stand, but that of the server."""
    (config,) = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    smaller = {
        "dropout: 0.1": "hidden_dim: 16, intermediate_dim: 24, num_heads: 2",
        "size: 8000": "size: 290",
        "batch_tokens: 4096": "batch_tokens: 64",
        "{steps: 10000": "{steps: 4",
        "warmup_steps: 1000": "warmup_steps: 2",
        "every: 500": "every: 4",
    }
    for text, replacement in smaller.items():
        assert text in config
        config = config.replace(text, replacement)
    (tmp_path / "my.yaml").write_text(config)
    for name, count in {"train": 40, "valid": 3, "test": 3, "new": 3}.items():
        for language, word in {"en": "room", "de": "Zimmer"}.items():
            lines = [f"{word} {number}\n" for number in range(count)]
            (tmp_path / f"{name}.{language}").write_text("".join(lines))
    blocks = re.findall(r"```bash\n(.*?)```", README, flags=re.DOTALL)
    (commands,) = [block for block in blocks if "my.yaml" in block]
    *commands, serve = commands.splitlines()
    for command in commands:
        _run(command, tmp_path)
    assert len((tmp_path / "new.de").read_text().splitlines()) == 3
    _run(f"{serve.partition('#')[0]} --help", tmp_path)


def _run(command, folder):
    command = command.replace(
        "keras-transformer ", f"{sys.executable} -m keras_transformer.cli.main "
    )
    done = subprocess.run(
        command, shell=True, cwd=folder, capture_output=True, encoding="utf-8"
    )
    assert done.returncode == 0, done.stderr
