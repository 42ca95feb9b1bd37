"""The small run of `small_run.py`, in a folder of its own."""

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
