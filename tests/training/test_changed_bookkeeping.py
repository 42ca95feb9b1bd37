"""A run that goes on with more steps or other bookkeeping than it was begun with."""

from pathlib import Path

import pytest
from small_run import assert_equal
from small_run import assert_mean
from small_run import metrics
from small_run import terminating_at
from small_run import weights_of

from keras_transformer.errors import InputError
from keras_transformer.training import average
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train
from keras_transformer.training.validation import Validation

pytestmark = pytest.mark.one_backend


def run(config_file, output, *options):
    config = load_config(config_file, [f"output={output}", *options])
    train(config)
    return Path(output)


def kept(folder):
    return list(checkpoints.list_checkpoints(folder))


def test_more_steps_end_as_if_they_had_been_asked_for_at_once(config_file, capsys):
    run(config_file, "grown", "training.steps=3")
    capsys.readouterr()
    grown = run(config_file, "grown")
    said = capsys.readouterr().err
    assert "grown goes on with training.steps: 3 -> 6" in said
    assert "resumed from step 3" in said
    whole = run(config_file, "whole")
    assert kept(grown) == [2, 4, 6]
    for step in ("step-0000004", "step-0000006"):
        both = (weights_of(folder / "checkpoints" / step) for folder in (grown, whole))
        assert_equal(*both)
    assert_equal(weights_of(grown / "averaged"), weights_of(whole / "averaged"))
    with pytest.raises(InputError, match=r"training\.steps: 6 -> 5"):
        run(config_file, "grown", "training.steps=5")


def test_the_best_checkpoint_may_be_that_of_a_former_end(config_file, monkeypatch):
    scores = iter([1.0, 9.0, 3.0])
    monkeypatch.setattr(Validation, "score", lambda *_: next(scores))
    best = ("training.average_best=1", "training.validate_every=2")
    run(config_file, "grown", "training.steps=3", *best)
    grown = run(config_file, "grown", "training.steps=4", *best)
    assert kept(grown) == [2, 3, 4]
    expected = weights_of(grown / "checkpoints" / "step-0000003")
    assert_equal(weights_of(grown / "averaged"), expected)
    assert average(grown, 1, "best", best=1) == [3]
    assert average(grown, 2, "last") == [2, 4]


def test_the_best_of_checkpoints_that_were_not_kept_is_refused(config_file, capsys):
    """The best of the others would be a worse model."""
    with pytest.MonkeyPatch.context() as patch:
        scores = iter([50.0, 20.0, 44.0])
        patch.setattr(Validation, "score", lambda *_: next(scores))
        every = ("training.validate_every=2", "training.keep_checkpoints=1")
        folder = run(config_file, "run", *every)
    assert kept(folder) == [6] and (folder / "best").is_dir()
    said = capsys.readouterr().err
    assert "val_bleu is 44 at step 6 and was 50 at step 2, of which best/ has" in said
    with pytest.raises(InputError, match=r"checkpoints of steps 2 were not kept; set"):
        average(folder, 1, "best", best=1)
    assert average(folder, 1, "last") == [6]


def test_other_intervals_change_no_weight_and_lose_no_checkpoint(
    config_file, capsys, monkeypatch
):
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(4))
        with pytest.raises(running.Interrupted):
            run(config_file, "run", "training.average_last=2")
    changed = ("training.checkpoint_every=3", "training.validate_every=5")
    folder = run(config_file, "run", *changed, "training.average_last=3")
    said = capsys.readouterr().err
    assert "training.checkpoint_every: 2 -> 3" in said
    assert "checkpoints are missing" not in said
    assert kept(folder) == [2, 4, 6]  # by the interval of then, and of now
    parts = [weights_of(path) for path in checkpoints.list_checkpoints(folder).values()]
    assert_mean(weights_of(folder / "averaged"), parts)
    whole = run(config_file, "whole")
    assert_equal(parts[-1], weights_of(whole / "checkpoints" / "step-0000006"))
    # A line whose window was whole counts nothing of it again.
    lines = {line["step"]: line["loss"] for line in metrics(folder)}
    assert list(lines) == [2, 4, 5, 6]


def test_more_patience_wakes_a_run_that_had_ended(config_file, capsys, monkeypatch):
    values = iter([3.0, 2.0, 1.0, 4.0, 5.0, 6.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    options = ["training.validate_every=1", "training.warmup_steps=1"]
    folder = run(config_file, "run", *options, "training.patience=2")
    assert max(kept(folder)) == 3
    run(config_file, "run", *options, "training.patience=2")
    assert "finished already" in capsys.readouterr().err
    run(config_file, "run", *options, "training.patience=3")
    assert max(kept(folder)) == 6


def test_early_stopping_waits_for_the_end_of_the_warm_up(config_file, monkeypatch):
    values = iter([0.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    options = ["training.validate_every=1", "training.patience=2"]
    folder = run(config_file, "run", *options, "training.warmup_steps=3")
    assert max(kept(folder)) == 5


def test_scores_of_another_kind_are_not_compared(config_file, capsys, monkeypatch):
    values = iter([50.0, 1.0, 2.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    options = ["training.validate_every=2", "training.keep_best=1"]
    folder = run(config_file, "run", *options, "training.steps=2")
    capsys.readouterr()
    run(config_file, "run", *options, "evaluation.lowercase=true")
    said = capsys.readouterr().err
    assert "evaluation.lowercase: False -> True" in said
    assert "the best one is chosen anew" in said
    assert_equal(
        weights_of(folder / "best"), weights_of(folder / "checkpoints" / "step-0000006")
    )
    assert checkpoints.read_state(folder / "checkpoints" / "step-0000006")[
        "scores"
    ] == [[4, 1.0], [6, 2.0]]


def test_a_cosine_that_is_stretched_is_told(config_file, capsys):
    options = ["training.schedule=cosine"]
    run(config_file, "run", *options, "training.steps=4")
    run(config_file, "run", *options)
    assert "the cosine now falls until step 6" in capsys.readouterr().err


def test_a_warm_up_beyond_the_last_step_is_told(config_file, capsys):
    run(config_file, "run", "training.steps=2")
    said = capsys.readouterr().err
    assert "warmup_steps 3 is beyond the 2 training.steps" in said


def test_a_validation_without_any_bleu_is_told(config_file, capsys):
    """At the end; a run that goes on hears it after the third one."""
    run(config_file, "run", "training.validate_every=1", "training.warmup_steps=1")
    said = capsys.readouterr().err
    assert said.count("BLEU was 0 in all 3 validations") == 1
    assert said.count("BLEU was 0 in all 6 validations") == 1
