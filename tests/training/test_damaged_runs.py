"""Damage to what a run reads back: it is named, and never trained on."""

import json
import os
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest
from small_run import assert_equal
from small_run import assert_equal_runs
from small_run import assert_mean
from small_run import flip
from small_run import weights_of

from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.models.weights import weight_values
from keras_transformer.models.weights import write_arrays
from keras_transformer.training import average
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.run_opening import opened
from keras_transformer.training.run_state import restored

pytestmark = pytest.mark.one_backend
FILES = ("model.weights.h5", "state.h5", "state.json")


@pytest.fixture(scope="module")
def whole(project):
    """The run of the project and its model, compiled."""
    config = load_config(project / "small.yaml", [f"output={project / 'run'}"])
    parts = build_parts(config, Distribution(), lambda text: None)
    return config, parts.translator.model


@pytest.fixture
def newest(run):
    return run / "checkpoints" / "step-0000006"


@pytest.fixture
def resume(whole, run):
    """Where a resume goes on, and what it says."""

    def restore():
        said = []
        config = whole[0].model_copy(update={"output": run})
        state, _ = restored(config, whole[1], said.append)
        return state, "\n".join(said)

    return restore


def edit_state(checkpoint, change, digests=True):
    """Changes a `state.json` as whoever wrote it might, or an earlier version."""
    path = checkpoint / "state.json"
    state = json.loads(path.read_text())
    kept = state.pop("sha256")
    state = change(state)
    if digests:
        state["sha256"] = {**kept, "state.json": sha256_of_json(state)}
    path.write_text(json.dumps(state))


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("share", [0.3, 0.6, 0.999])
def test_a_flipped_bit_is_named_and_the_checkpoint_before_is_taken(
    file, share, newest, resume
):
    flip(newest / file, int(share * (newest / file).stat().st_size))
    state, said = resume()
    assert state.step == 4
    assert str(newest / file) in said and "an older checkpoint is used" in said


def other_step(checkpoint):
    shutil.rmtree(checkpoint)
    shutil.copytree(checkpoint.with_name("step-0000004"), checkpoint)


def file_for_folder(checkpoint):
    shutil.rmtree(checkpoint)
    checkpoint.write_text("no folder")


def fifo(name):
    def replace(checkpoint):
        (checkpoint / name).unlink()
        os.mkfifo(checkpoint / name)

    return replace


def link_out(name):
    def replace(checkpoint):
        other = checkpoint.parents[1] / name
        (checkpoint / name).rename(other)
        (checkpoint / name).symlink_to(other)

    return replace


def folder_for_file(name):
    def replace(checkpoint):
        (checkpoint / name).unlink()
        (checkpoint / name).mkdir()

    return replace


def state_of(**changes):
    return lambda checkpoint: edit_state(checkpoint, lambda state: state | changes)


def write_json(text):
    return lambda checkpoint: (checkpoint / "state.json").write_text(text)


DAMAGES = {
    "the checkpoint of another step": other_step,
    "a file where a folder is meant": file_for_folder,
    "a pipe for the state": fifo("state.json"),
    "a pipe for the weights": fifo("model.weights.h5"),
    "a pipe for the optimizer": fifo("state.h5"),
    "a link for the state that leads out": link_out("state.json"),
    "a link for the weights that leads out": link_out("model.weights.h5"),
    "a folder for the state": folder_for_file("state.json"),
    "a folder for the optimizer": folder_for_file("state.h5"),
    "an unknown key": state_of(steps=7),
    "no scores": state_of(scores=None),
    "scores that are none": state_of(scores=[[4, "high"]]),
    "seconds in words": state_of(seconds="3"),
    "digests that are none": lambda c: edit_state(
        c, lambda state: {**state, "sha256": []}, digests=False
    ),
    "a list": write_json("[]"),
    "null": write_json("null"),
    "brackets without end": write_json("[" * 100_000),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_a_checkpoint_of_any_wrong_form_is_passed_over(damage, newest, resume, run):
    DAMAGES[damage](newest)
    state, said = resume()
    assert state.step == 4
    assert "step-0000006" in said.splitlines()[0]
    lines = []
    assert average(run, 2, run / "mean", say=lines.append) == [2, 4]
    assert "step-0000006" in lines[0]


@pytest.mark.parametrize("file", ["model.weights.h5", "state.h5"])
def test_a_missing_array_is_noticed_without_digests(file, newest, resume):
    edit_state(newest, lambda state: state, digests=False)
    with h5py.File(newest / file, "a") as content:
        del content[max(content)]
    state, said = resume()
    assert state.step == 4
    assert str(newest / file) in said


def test_no_damaged_checkpoint_is_averaged(newest, run):
    """The one in the middle, when those around it are whole."""
    middle = newest.with_name("step-0000004")
    flip(middle / "model.weights.h5", -1)
    said = []
    assert average(run, 2, run / "mean", say=said.append) == [2, 6]
    assert f"{middle / 'model.weights.h5'} is damaged" in said[0]
    kept = checkpoints.list_checkpoints(run)
    assert_mean(weights_of(run / "mean"), [weights_of(kept[step]) for step in (2, 6)])
    with pytest.raises(InputError, match="has 2 checkpoints; --last must be between"):
        average(run, 3, run / "more")


def test_the_mean_at_the_end_of_a_run_is_of_whole_checkpoints(
    run, project, monkeypatch, capsys
):
    class Damaging(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == 6:
                flip(Path("new/checkpoints/step-0000004/model.weights.h5"), -1)

    monkeypatch.setattr(running, "Progress", Damaging)
    options = ["output=new", "training.average_last=2"]
    train(load_config("small.yaml", options))
    said = capsys.readouterr().err
    assert "step-0000004/model.weights.h5 is damaged" in said
    assert "checkpoints are missing: 4; averaged/ is the mean of the steps 2, 6" in said
    kept = checkpoints.list_checkpoints("new")
    found = weights_of(Path("new/averaged"))
    assert_mean(found, [weights_of(kept[step]) for step in (2, 6)])


def test_a_run_of_an_earlier_version_goes_on_with_one_line_about_it(
    run, project, capsys
):
    """No digests, nothing of the run's files, and no list of what was due."""

    def as_before(state):
        names = ("step", "seconds", "scores", "ended", "backend")
        return {name: state[name] for name in names}

    for path in checkpoints.list_checkpoints(run).values():
        edit_state(path, as_before, digests=False)
    shutil.rmtree(run / "checkpoints" / "step-0000006")
    shutil.rmtree(run / "averaged")
    config = load_config("small.yaml", [f"output={run}"])
    (run / "config.yaml").write_text(config.to_yaml())
    train(config)
    said = capsys.readouterr().err
    assert said.count("of an earlier version: read unchecked") == 1
    assert_equal_runs(run, project / "run")
    lines = []
    assert average(run, 2, run / "mean", say=lines.append) == [4, 6]
    assert len(lines) == 1 and "of an earlier version: read unchecked" in lines[0]


REPLACED = {
    "tokenizer.model": lambda path: flip(path, -9),
    "no tokenizer.model": lambda path: path.unlink(),
    "corpus.json": lambda path: path.write_text("[1]"),
    "corpus.json of other texts": lambda path: path.write_text('{"train": []}'),
    "config.yaml that is a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
}


@pytest.mark.parametrize("name", REPLACED)
def test_a_replaced_file_of_the_run_folder_is_refused(name, run):
    file = next(word for word in name.split() if "." in word)
    config = load_config("small.yaml", [f"output={run}"])
    REPLACED[name](run / file)
    with pytest.raises(InputError, match=r"corpus|" + file):
        train(config)
    with pytest.raises(InputError, match=file):
        average(run, 2, run / "mean")


@pytest.mark.parametrize("content", ["", "many", "-3"])
def test_a_damaged_token_budget_is_refused(content, project, monkeypatch):
    monkeypatch.chdir(project)
    config = load_config("small.yaml", ["data.batch_tokens=auto", "output=auto"])
    with opened(config) as folder:
        (folder / "batch_tokens").write_text(content)
    with pytest.raises(InputError, match="batch_tokens is damaged"):
        train(config)


@pytest.mark.parametrize("name", ["checkpoints", "encoded", "logs", "averaged", "best"])
def test_a_file_where_the_run_needs_a_folder_is_refused_before_a_step(
    name, run, capsys
):
    shutil.rmtree(run / name, ignore_errors=True)
    (run / name).write_text("no folder")
    with pytest.raises(InputError, match=f"{name} is not a folder; remove it"):
        train(load_config("small.yaml", [f"output={run}"]))


def test_a_pipe_for_the_log_is_refused(run):
    (run / "logs" / "metrics.jsonl").unlink()
    os.mkfifo(run / "logs" / "metrics.jsonl")
    with pytest.raises(InputError, match=r"metrics\.jsonl is not a regular file"):
        train(load_config("small.yaml", [f"output={run}"]))


@pytest.mark.parametrize(
    "change", [lambda a: a[..., :1], lambda a: a[0], lambda a: a[None]]
)
def test_weights_of_other_shapes_are_not_averaged(change, run, newest):
    """Nor broadcast: (1,) goes into every shape."""
    arrays = weights_of(newest)
    name = max(arrays, key=lambda name: arrays[name].ndim)
    shape = arrays[name].shape
    arrays[name] = np.ascontiguousarray(change(arrays[name]))
    write_arrays(arrays, newest / "model.weights.h5")
    edit_state(newest, lambda state: state, digests=False)
    with pytest.raises(InputError) as error:
        average(run, 2, run / "mean")
    said = str(error.value)
    assert name in said and str(arrays[name].shape) in said and str(shape) in said
    assert not (run / "mean").exists()


def test_a_checkpoint_of_another_model_is_not_averaged(run, newest):
    arrays = weights_of(newest)
    arrays["foreign"] = arrays.pop(min(arrays))
    write_arrays(arrays, newest / "model.weights.h5")
    edit_state(newest, lambda state: state, digests=False)
    with pytest.raises(InputError, match=r"step-0000006 is of another model than"):
        average(run, 2, run / "mean")


def test_a_whole_checkpoint_is_read_without_a_word(newest, resume, whole):
    state, said = resume()
    assert (state.step, said) == (6, "resumed from step 6")
    assert_equal(weights_of(newest), weight_values(whole[1]))
