"""A run goes on wherever it lies, whatever ended it, and with nothing but itself."""

import errno
import io
import json
import os
import shutil
import signal
import sys
from pathlib import Path

import pytest
import yaml
from small_run import CONFIG
from small_run import assert_equal_runs
from small_run import assert_mean
from small_run import terminating_at
from small_run import weights_of

from keras_transformer.data import Tokenizer
from keras_transformer.errors import InputError
from keras_transformer.models.weights import weight_values
from keras_transformer.training import average
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import run_folder
from keras_transformer.training import train
from keras_transformer.training.corpora import Corpora
from keras_transformer.training.moving_average import averaged
from keras_transformer.training.validation import Validation

pytestmark = pytest.mark.one_backend


def stop_at(step, config, monkeypatch, number=signal.SIGTERM):
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(step, number))
        with pytest.raises(running.Interrupted) as error:
            train(config)
    return error.value


class Gone(io.StringIO):
    """A terminal that is closed."""

    def write(self, text):
        raise OSError(errno.EIO, os.strerror(errno.EIO))


@pytest.fixture
def hangup():
    """Sets what SIGHUP does: the tests themselves may be told to ignore it."""
    before = signal.getsignal(signal.SIGHUP)
    yield lambda handler: signal.signal(signal.SIGHUP, handler)
    signal.signal(signal.SIGHUP, before)


def test_a_terminal_that_closes_takes_nothing(config_file, hangup, monkeypatch):
    """The kernel and the shell each send SIGHUP, and messages have nowhere to go."""
    hangup(signal.SIG_DFL)
    train(load_config(config_file, ["output=whole"]))
    config = load_config(config_file)
    note = running.StopOnSignal._note

    def note_twice(self, number, frame):
        if self.signal is None:
            note(self, number, frame)
            os.kill(os.getpid(), number)

    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", Gone())
        patch.setattr(running.StopOnSignal, "_note", note_twice)
        stop = stop_at(3, config, patch, signal.SIGHUP)
    assert stop.exit_code == 129
    assert list(checkpoints.list_checkpoints("runs/small")) == [2, 3]
    train(config)
    assert_equal_runs(Path("runs/small"), Path("whole"))


def test_ctrl_c_leaves_a_checkpoint_and_says_how_to_go_on(config_file, monkeypatch):
    stop = stop_at(3, load_config(config_file), monkeypatch, signal.SIGINT)
    assert str(stop).startswith("stopped by SIGINT at step 3; run the same command")
    assert stop.exit_code == 130
    assert list(checkpoints.list_checkpoints("runs/small")) == [2, 3]


def test_nohup_keeps_a_hangup_away(config_file, hangup, monkeypatch):
    hangup(signal.SIG_IGN)
    monkeypatch.setattr(running, "Progress", terminating_at(3, signal.SIGHUP))
    train(load_config(config_file))
    assert Path("runs/small/averaged").is_dir()


def test_a_project_that_has_moved_goes_on(config_file, monkeypatch):
    """Config, texts, tokenizer and run; texts of another content are refused."""
    train(load_config(config_file, ["training.steps=2", "output=first"]))
    old = config_file.parent / "old"
    old.mkdir()
    config = yaml.safe_load(CONFIG)
    config["tokenizer"] = {"path": "tokenizer.model"}
    (old / "moving.yaml").write_text(yaml.safe_dump(config))
    for path in (*config_file.parent.glob("*.??"), Path("first/tokenizer.model")):
        shutil.copy(path, old)
    monkeypatch.chdir(old)
    whole, output = (f"output={name}" for name in ("whole", "stopped"))
    train(load_config("moving.yaml", [whole]))
    stop_at(3, load_config("moving.yaml", [output]), monkeypatch)

    new = old.rename(old.with_name("new"))
    monkeypatch.chdir(new)
    train(load_config("moving.yaml", [output, "decoding.beam_size=1"]))
    assert_equal_runs(new / "stopped", new / "whole")

    swapped = load_config("moving.yaml", [output])
    shutil.copy("val.de", "val.en")
    with pytest.raises(InputError, match=r"begun with another corpus .*val\.en"):
        train(swapped)
    shutil.copy("../val.en", "val.en")
    retrained = Tokenizer.train(["ein anderer Text"] * 9, 270)
    retrained.save("tokenizer.model")
    with pytest.raises(InputError, match=r"begun with another tokenizer than .*new/to"):
        train(swapped)


def test_a_tuned_run_goes_on_without_what_it_began_with(config_file, monkeypatch):
    train(load_config(config_file, ["training.steps=2", "output=base"]))
    config = yaml.safe_load(CONFIG)
    del config["tokenizer"]
    config["model"] = {"folder": "base/averaged"}
    file = config_file.with_name("tuned.yaml")
    file.write_text(yaml.safe_dump(config))
    train(load_config(file, ["output=whole"]))
    stop_at(3, load_config(file), monkeypatch)
    shutil.rmtree("base")
    with pytest.raises(InputError, match="averaged is not a model folder"):
        load_config(file)
    whole = load_config("runs/tuned/config.yaml", ["output=runs/tuned"])
    train(whole)
    assert_equal_runs(Path("runs/tuned"), Path("whole"))
    average("runs/tuned", 2, "two")
    kept = checkpoints.list_checkpoints("runs/tuned")
    assert_mean(weights_of(Path("two")), [weights_of(kept[step]) for step in (4, 6)])
    with pytest.raises(InputError, match=r"cannot read .*/tokenizer\.model"):
        train(load_config("runs/tuned/config.yaml", ["output=anew"]))


def test_a_tuned_run_goes_on_where_its_origin_has_moved(config_file, monkeypatch):
    train(load_config(config_file, ["training.steps=2", "output=base"]))
    config = yaml.safe_load(CONFIG)
    del config["tokenizer"]
    file = config_file.with_name("tuned.yaml")
    file.write_text(yaml.safe_dump({**config, "model": {"folder": "base/averaged"}}))
    train(load_config(file, ["output=whole"]))
    stop_at(3, load_config(file), monkeypatch)
    Path("base").rename("elsewhere")
    moved = "model.folder=elsewhere/averaged"
    other = shutil.copytree("whole/averaged", "other")
    with pytest.raises(InputError, match=r"another config \(model\.folder: .*average"):
        train(load_config(file, [f"model.folder={other}"]))
    train(load_config(file, [moved]))
    assert_equal_runs(Path("runs/tuned"), Path("whole"))


def test_the_config_of_a_run_folder_goes_on_in_that_folder(config_file, monkeypatch):
    train(load_config(config_file, ["training.steps=2", "output=first"]))
    Path("first").rename("second")
    elsewhere = config_file.parent / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    assert load_config("../second/config.yaml").output == Path("../second")
    assert load_config("../second/config.yaml", ["output=x"]).output == Path("x")
    with pytest.raises(InputError, match=r"second is a folder; .*second/config\.yaml"):
        load_config("../second")
    monkeypatch.chdir(config_file.parent)
    own = config_file.rename("config.yaml")  # of a project, not of a run
    Path("checkpoints").mkdir()
    train(load_config(own, ["training.steps=1", "output=checkpoints/first"]))
    text = own.read_text()
    assert load_config(own).output == Path("runs/config")
    assert own.read_text() == text
    monkeypatch.chdir("second")
    config = load_config("config.yaml")
    assert config.output == config_file.parent / "second"
    train(config)  # all steps are there
    assert not list(elsewhere.iterdir())


def test_what_cannot_be_read_takes_no_place_of_a_checkpoint(config_file, monkeypatch):
    config = load_config(config_file, ["training.keep_checkpoints=1"])
    stop_at(3, config, monkeypatch)
    folder = Path("runs/small/checkpoints")
    newest = shutil.copytree(folder / "step-0000003", folder / "step-0000008")
    for path in (newest, folder / "step-0000003"):
        (path / "state.h5").write_bytes(b"cut off")
    stop_at(5, config, monkeypatch)
    assert list(checkpoints.list_checkpoints("runs/small")) == [4, 5]
    train(config)
    assert list(checkpoints.list_checkpoints("runs/small")) == [6]


def test_running_means_are_what_is_averaged(config_file, monkeypatch):
    means = []
    take = running.take_snapshot

    def keep(model):
        with averaged(model):
            means.append(weight_values(model))
        return take(model)

    monkeypatch.setattr(running, "take_snapshot", keep)
    train(load_config(config_file, ["training.ema=0.5"]))
    average("runs/small", 2, "two")
    assert_mean(weights_of(Path("two")), means[-2:])
    average("runs/small", 1, "last")
    delivered = weights_of(Path("runs/small/averaged"))
    assert_mean(weights_of(Path("last")), [delivered])


def test_patience_remembers_what_it_has_seen(config_file, capsys, monkeypatch):
    scores = iter([3.0, 1.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(scores))
    options = ["training.validate_every=2", "training.patience=1"]
    config = load_config(config_file, options)
    stop_at(3, config, monkeypatch)
    train(config)
    assert "no better validation since step 2" in capsys.readouterr().err
    assert max(checkpoints.list_checkpoints("runs/small")) == 4
    train(config)
    assert "finished already" in capsys.readouterr().err


def test_another_backend_is_told(config_file, capsys, monkeypatch):
    config = load_config(config_file)
    stop_at(3, config, monkeypatch)
    kept = Path("runs/small/checkpoints/step-0000003/state.json")
    state = json.loads(kept.read_text())
    del state["sha256"]
    kept.write_text(json.dumps({**state, "backend": "another"}))
    stop_at(5, config, monkeypatch)
    told = f"the backend was another and is now {state['backend']}"
    assert told in capsys.readouterr().err
    train(config)
    assert "the backend was" not in capsys.readouterr().err


def test_a_run_folder_that_a_process_does_not_share_is_refused(config_file):
    config = load_config(config_file)
    with pytest.raises(InputError, match=r"lacks corpus\.json, which"):
        run_folder.check_corpus(Path("elsewhere"), Corpora(config.data))
