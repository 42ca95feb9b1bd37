"""The small run of `small_run.py`, in a folder of its own."""

import shutil

import digit_text
import pytest
import small_run

from keras_transformer.training import curve


@pytest.fixture
def draws_curves():
    """Asks for the picture of a run, which else is left out."""


@pytest.fixture(autouse=True)
def without_curves(request, monkeypatch):
    """Draws no picture of a run in this process: half of a small run's time."""
    if "draws_curves" not in request.fixturenames:
        monkeypatch.setattr(curve, "draw", lambda lines: None)


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    digit_text.write_files(tmp_path, "train", 60)
    digit_text.write_files(tmp_path, "val", 3, seed=2)
    (tmp_path / "small.yaml").write_text(small_run.CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "small.yaml"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
    """A folder with texts, config and a run that has the checkpoints 2, 4 and 6."""
    from keras_transformer.training import load_config
    from keras_transformer.training import train

    folder = tmp_path_factory.mktemp("project")
    digit_text.write_files(folder, "train", 60)
    digit_text.write_files(folder, "val", 3, seed=2)
    (folder / "small.yaml").write_text(small_run.CONFIG)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        patch.setattr(curve, "draw", lambda lines: None)
        train(load_config("small.yaml", ["output=run"]))
    return folder


@pytest.fixture
def run(project, tmp_path, monkeypatch):
    """A copy of the run, to damage."""
    monkeypatch.chdir(project)
    return shutil.copytree(project / "run", tmp_path / "run")


@pytest.fixture
def load(request, tmp_path):
    """`load(name, *overrides)` of the module's `CONFIG`, beside lines `en` and `de`."""
    from keras_transformer.data import phrasebook
    from keras_transformer.training import load_config

    texts = phrasebook.load("en", "de", "train")
    for language, lines in zip(("en", "de"), texts, strict=True):
        text = "".join(f"{line}\n" for line in lines[:20])
        (tmp_path / language).write_text(text, encoding="utf-8")
    path = tmp_path / "config.yaml"
    path.write_text(request.module.CONFIG, encoding="utf-8")

    def load_run(name, *overrides):
        return load_config(path, [f"output={tmp_path / name}", *overrides])

    return load_run


@pytest.fixture
def encode(tmp_path):
    """The rows of a config's training text, and the tokenizers."""
    from keras_transformer.training.corpora import Corpora
    from keras_transformer.training.corpora import make_tokenizers

    def encode_config(config, **options):
        corpora = Corpora(config.data)
        folder = tmp_path / "tokenizers"
        folder.mkdir(exist_ok=True)
        section = config.tokenizer
        tokenizers = make_tokenizers(section, corpora.sample, folder, corpora.symbols)
        return corpora.encode(*tokenizers, tmp_path / "cache", **options), tokenizers

    return encode_config
