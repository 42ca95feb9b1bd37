"""The small run of `small_run.py`, in a folder of its own."""

import shutil

import digit_text
import pytest
import small_run


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
        train(load_config("small.yaml", ["output=run"]))
    return folder


@pytest.fixture
def run(project, tmp_path, monkeypatch):
    """A copy of the run, to damage."""
    monkeypatch.chdir(project)
    return shutil.copytree(project / "run", tmp_path / "run")
