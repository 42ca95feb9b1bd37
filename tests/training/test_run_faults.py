"""What goes wrong in a run: it is said, and nothing is lost."""

import errno
import os
import shutil

import numpy as np
import pytest
from small_run import assert_equal_runs
from small_run import assert_mean
from small_run import terminating_at
from small_run import weights_of

from keras_transformer.backends.distribution import Distribution
from keras_transformer.data import TokenBatches
from keras_transformer.errors import InputError
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.run_opening import opened
from keras_transformer.training.validation import Validation

pytestmark = pytest.mark.one_backend


def test_a_foreign_folder_is_refused(config_file):
    folder = config_file.parent / "letters"
    folder.mkdir()
    (folder / "letter.txt").write_text("dear")
    with pytest.raises(InputError, match="letters exists and is not a run folder"):
        train(load_config(config_file, ["output=letters"]))
    with pytest.raises(InputError, match="cannot write the run folder"):
        train(load_config(config_file, ["output=letters/letter.txt/run"]))
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_bad_corpora_are_refused(config_file):
    folder = config_file.parent
    (folder / "train.de").write_text("eine Zeile\n")
    with pytest.raises(InputError, match=r"train.en has 60 lines but .*train.de has 1"):
        train(load_config(config_file))
    (folder / "train.de").unlink()
    with pytest.raises(InputError, match=r"cannot read .*train.de"):
        train(load_config(config_file))


@pytest.mark.parametrize(
    ("option", "message"),
    [
        ("evaluation.tokenize=moses-klingon", "Moses has no rules for"),
        ("decoding.max_source_length=3", r"data.validation: line 1 has \d+ tokens"),
    ],
)
def test_what_would_fail_in_the_end_fails_before_the_first_step(
    option, message, config_file, capsys
):
    with pytest.raises(InputError, match=message):
        train(load_config(config_file, [option]))
    assert "step 1/" not in capsys.readouterr().err


def test_a_validation_of_nothing_is_named(config_file):
    for language in ("en", "de"):
        (config_file.parent / f"val.{language}").write_text("\n\n")
    with pytest.raises(InputError, match=r"data\.validation: "):
        train(load_config(config_file))


def test_a_loss_that_is_no_number_stops_the_run(config_file, monkeypatch):
    """A batch whose weights are not finite makes it so, at a step that is known."""
    take = TokenBatches.__getitem__

    def broken(self, index):
        inputs, labels, weights = take(self, index)
        return inputs, labels, weights * (np.nan if index == 4 else 1.0)

    monkeypatch.setattr(TokenBatches, "__getitem__", broken)
    config = load_config(config_file, ["training.validate_every=100"])
    with pytest.raises(InputError, match=r"the loss of step 5 \(batch") as error:
        train(config)
    assert "the checkpoint of step 4 is kept" in str(error.value)
    folder = config_file.parent / "runs" / "small" / "checkpoints"
    arrays = weights_of(folder / "step-0000004")
    assert all(np.isfinite(array).all() for array in arrays.values())


def test_two_processes_cannot_train_in_one_folder(config_file):
    config = load_config(config_file)
    with (
        opened(config),
        pytest.raises(InputError, match="another process is training in"),
    ):
        train(config)


def test_a_full_disk_stops_no_training(config_file, monkeypatch, capsys):
    monkeypatch.setattr(checkpoints, "write_arrays", full_at(4))
    train(load_config(config_file))
    found = checkpoints.list_checkpoints(config_file.parent / "runs" / "small")
    assert list(found) == [2, 6]
    message = capsys.readouterr().err
    assert "No space left on device; this checkpoint is skipped" in message


def test_a_disk_that_is_full_at_the_last_moment_leaves_no_part(
    config_file, monkeypatch, capsys
):
    flush = checkpoints._flush

    def flush_or_not(path):
        if path.name.startswith(".step-0000004"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        flush(path)

    monkeypatch.setattr(checkpoints, "_flush", flush_or_not)
    train(load_config(config_file))
    folder = config_file.parent / "runs" / "small" / "checkpoints"
    assert sorted(path.name for path in folder.iterdir()) == [
        "step-0000002",
        "step-0000006",
    ]
    assert "No space left on device; this checkpoint is" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("lost", "said"),
    [
        ((4,), "checkpoints are missing: 4; averaged/ is the mean of the steps 2, 6"),
        ((4, 6), "missing: 4, 6; averaged/ has the weights of step 6 alone"),
    ],
)
def test_no_old_weights_are_delivered_for_new_ones(
    lost, said, config_file, monkeypatch, capsys
):
    """`averaged/` without the last step would be a model of long ago, unnoticed."""
    options = ["training.average_last=3"]
    train(load_config(config_file, [*options, "output=whole"]))
    monkeypatch.setattr(checkpoints, "write_arrays", full_at(*lost))
    train(load_config(config_file, options))
    assert said in capsys.readouterr().err
    kept = checkpoints.list_checkpoints(config_file.parent / "whole")
    steps = [6] if 6 in lost else [2, 6]
    found = weights_of(config_file.parent / "runs" / "small" / "averaged")
    assert_mean(found, [weights_of(kept[step]) for step in steps])


def test_a_run_that_began_wrong_can_be_mended(config_file):
    """Nothing is lost with a run that has no checkpoint: it gives way."""
    folder = config_file.parent
    with pytest.raises(InputError, match="vocabulary"):
        train(load_config(config_file, ["tokenizer.vocabulary_size=100000"]))
    lines = (folder / "train.de").read_text()
    (folder / "train.de").write_text(lines + "eine Zeile\n")
    with pytest.raises(
        InputError, match=r"train.en has 60 lines but .*train.de has 61"
    ):
        train(load_config(config_file))
    swapped = "".join(reversed(lines.splitlines(keepends=True)))
    (folder / "train.de").write_text(swapped)
    config = load_config(config_file, ["training.steps=2"])
    build_parts(config, Distribution(), print)
    (folder / "train.de").write_text(lines)
    train(config)
    train(load_config(config_file, ["training.steps=2", "output=other"]))
    assert_equal_runs(folder / "runs" / "small", folder / "other")


def test_another_config_is_refused_with_the_difference(config_file):
    train(load_config(config_file, ["training.steps=2"]))
    with pytest.raises(InputError, match=r"training.steps: 2 -> 1"):
        train(load_config(config_file, ["training.steps=1"]))
    # Searches differ as one likes, but for what validation does, too.
    both = ["training.steps=2", "decoding.beam_size=5"]
    train(load_config(config_file, [*both, "decoding.length_penalty=1.5"]))
    with pytest.raises(InputError, match=r"decoding.max_length: 6 -> 9\)"):
        train(load_config(config_file, [*both, "decoding.max_length=9"]))


def test_a_gradient_that_is_no_number_leaves_the_checkpoint_before(
    config_file, monkeypatch
):
    """The loss of the step itself is finite, and a checkpoint is due after it."""

    class Broken(running.Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == 4:
                weight = self.model.weights[0]
                weight.assign(np.full(weight.shape, np.nan))

    monkeypatch.setattr(running, "Progress", Broken)
    with pytest.raises(InputError, match=r"the weight '.*' after step 4 \(batch") as e:
        train(load_config(config_file))
    assert "the checkpoint of step 2 is kept" in str(e.value)
    folder = config_file.parent / "runs" / "small"
    assert list(checkpoints.list_checkpoints(folder)) == [2]
    assert not (folder / "best").exists()


def test_a_full_disk_takes_a_best_checkpoint(config_file, monkeypatch, capsys):
    """The others are averaged, and the run ends."""
    values = iter([1.0, 3.0, 2.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    monkeypatch.setattr(checkpoints, "write_arrays", full_at(4))
    options = ["training.validate_every=2", "training.average_best=2"]
    train(load_config(config_file, options))
    folder = config_file.parent / "runs" / "small"
    kept = checkpoints.list_checkpoints(folder)
    assert list(kept) == [2, 6]
    found = weights_of(folder / "averaged")
    for name, array in weights_of(kept[2]).items():
        mean = (array + weights_of(kept[6])[name]) / 2
        np.testing.assert_allclose(found[name], mean, rtol=1e-5, atol=1e-7)


def test_a_signal_on_a_full_disk_names_what_there_is(config_file, monkeypatch):
    monkeypatch.setattr(running, "Progress", terminating_at(3))
    monkeypatch.setattr(checkpoints, "write_arrays", full_at(3))
    with pytest.raises(running.Interrupted, match=r"at step 3; .* go on from step 2$"):
        train(load_config(config_file))
    monkeypatch.setattr(checkpoints, "write_arrays", full_at(2, 3))
    with pytest.raises(running.Interrupted, match=r"to go on from step 0$"):
        train(load_config(config_file, ["output=other"]))


def full_at(*steps):
    """`write_arrays` on a disk that is full at these steps."""
    write = checkpoints.write_arrays

    def write_or_not(arrays, path):
        if any(f"step-{step:07d}" in str(path) for step in steps):
            raise InputError(f"cannot write {path}: No space left on device")
        write(arrays, path)

    return write_or_not


@pytest.mark.parametrize("file", ["model.weights.h5", "state.h5", "state.json"])
def test_a_checkpoint_that_is_cut_off_is_passed_over(file, config_file, capsys):
    train(load_config(config_file, ["output=whole"]))
    folder = config_file.parent
    shutil.copytree(folder / "whole", folder / "cut")
    path = folder / "cut" / "checkpoints" / "step-0000006" / file
    path.write_bytes(path.read_bytes()[:20])
    config = load_config(config_file, ["output=cut"])
    (folder / "cut" / "config.yaml").write_text(config.to_yaml())
    capsys.readouterr()
    train(config)
    said = capsys.readouterr().err
    assert f"{file} is" in said and "an older checkpoint is used" in said
    assert "resumed from step 4" in said
    assert_equal_runs(folder / "cut", folder / "whole")
    for other in (folder / "cut" / "checkpoints").iterdir():
        (other / file).write_bytes(b"")
    with pytest.raises(InputError, match=r"no checkpoint in .*cut can be read"):
        train(config)


def test_a_checkpoint_of_another_optimizer_is_refused(config_file):
    train(load_config(config_file, ["training.ema=0.9", "output=mean"]))
    shutil.copytree("mean", "plain")
    config = load_config(config_file, ["output=plain"])
    (config_file.parent / "plain" / "config.yaml").write_text(config.to_yaml())
    with pytest.raises(InputError, match=r"state.h5 does not fit the optimizer"):
        train(config)


def test_a_folder_left_by_a_kill_is_no_foreign_one(config_file):
    """Before the first config was whole, and in the middle of writing a model."""
    config = load_config(config_file)
    folder = config_file.parent / "runs" / "small"
    folder.mkdir(parents=True)
    for name in (".lock", "config.yaml.7.tmp"):
        (folder / name).write_text("steps")
    (folder / ".best.x1").mkdir()
    with pytest.raises(InputError, match="is not a run folder"), opened(config):
        pass
    (folder / ".best.x1").rmdir()
    with opened(config):
        pass
    (folder / ".averaged.x1").mkdir()
    with opened(config):
        assert sorted(path.name for path in folder.iterdir()) == [
            ".lock",
            "config.yaml",
        ]
