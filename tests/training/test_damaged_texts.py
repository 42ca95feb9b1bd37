"""Texts and ids that a run reads back and that are not what they were."""

import json
import os
import shutil
from pathlib import Path

import digit_text
import pytest
import small_run
from small_run import assert_equal_runs
from small_run import flip

from keras_transformer.backends.distribution import Distribution
from keras_transformer.data.encoded_writer import write_manifest
from keras_transformer.errors import InputError
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.run_opening import opened


def flip_ids(folder):
    (encoded,) = (folder / "encoded").glob("*/source.ids")
    flip(encoded, -1)
    return encoded


@pytest.mark.one_backend
def test_damaged_ids_end_a_run_in_one_line(project, run, monkeypatch):
    file = flip_ids(run)
    shutil.rmtree(run / "checkpoints")
    shutil.rmtree(run / "averaged")
    shutil.rmtree(run / "best", ignore_errors=True)
    config = load_config("small.yaml", [f"output={run}"])
    with pytest.raises(InputError, match=r"source\.ids is damaged, near byte 0; re"):
        train(config)
    shutil.rmtree(file.parent)
    train(config)
    assert_equal_runs(run, project / "run")


@pytest.mark.one_backend
def test_other_ids_than_a_run_was_trained_with_are_refused(project, run):
    """Even where their own checksums are right."""
    (cache,) = (path for path in (run / "encoded").iterdir() if path.is_dir())
    manifest = json.loads((cache / "manifest.json").read_text())
    shorter = load_config("small.yaml", ["data.filters.min_length=6", "output=other"])
    with opened(shorter):
        build_parts(shorter, Distribution(), lambda text: None)
    (other,) = (path for path in Path("other/encoded").iterdir() if path.is_dir())
    foreign = json.loads((other / "manifest.json").read_text())
    foreign |= {key: manifest[key] for key in ("settings", "files")}
    shutil.rmtree(cache)
    shutil.copytree(other, cache)
    write_manifest(cache, foreign)
    with pytest.raises(InputError, match=r"encoded text of .* is not the one that its"):
        train(load_config("small.yaml", [f"output={run}"]))


@pytest.mark.one_backend
def test_a_text_replaced_under_its_size_and_time_is_refused(tmp_path, monkeypatch):
    digit_text.write_files(tmp_path, "train", 60)
    digit_text.write_files(tmp_path, "val", 3, seed=2)
    (tmp_path / "small.yaml").write_text(small_run.CONFIG)
    monkeypatch.chdir(tmp_path)
    config = load_config("small.yaml", ["training.steps=2"])
    train(config)
    path = Path("train.en")
    text, status = path.read_text(), path.stat()

    def replace(content):
        path.write_text(content)
        os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))

    replace("".join(reversed(text.splitlines(keepends=True))))
    with pytest.raises(InputError, match=r"begun with another corpus .*train\.en"):
        train(config)
    replace(text)
    train(config)
    known = json.loads(Path("runs/small/corpus.json").read_text())["train"][0]
    assert known["ctime_ns"] == path.stat().st_ctime_ns  # not read again next time
