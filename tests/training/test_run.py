"""A whole run on a small corpus: its folder, its end, and how it goes on."""

import shutil
import sys
import types
from pathlib import Path

import numpy as np
import pytest
import small_run
import yaml
from small_run import assert_equal
from small_run import assert_equal_runs
from small_run import assert_mean
from small_run import metrics
from small_run import terminating_at
from small_run import weights_of

import keras_transformer as kt
from keras_transformer.backends.distribution import Distribution
from keras_transformer.config.about import About
from keras_transformer.data.corpus import read_lines
from keras_transformer.errors import InputError
from keras_transformer.training import assembly
from keras_transformer.training import average
from keras_transformer.training import checkpoints
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import run_folder
from keras_transformer.training import run_opening
from keras_transformer.training import train
from keras_transformer.training.run_state import newest_state
from keras_transformer.training.validation import Validation

pytestmark = pytest.mark.one_backend
FIXTURE = Path(__file__).resolve().parents[1] / "fixtures" / "en-de.format-1"


@pytest.mark.each_backend
@pytest.mark.no_tensorflow
def test_a_run_from_config_to_model_folder(config_file, capsys, draws_curves):
    config = load_config(config_file, ["training.average_last=3"])
    scores = train(config)
    folder = config_file.parent / "runs" / "small"
    output = capsys.readouterr().out.splitlines()
    assert output[-1] == f"test BLEU = {scores[0].score:.1f} {scores[0].signature}"
    assert sum("±" in line for line in output) == len(scores)
    assert "exact matches: 0 of 3 (0.0%)" in output
    steps = sorted(path.name for path in (folder / "checkpoints").iterdir())
    assert steps == ["step-0000002", "step-0000004", "step-0000006"]
    assert [line["step"] for line in metrics(folder)] == [2, 4, 6]
    assert "val_bleu" in metrics(folder)[1]
    # `averaged/` is the mean of the checkpoints, on disk and in use.
    parts = [weights_of(folder / "checkpoints" / step) for step in steps]
    assert_mean(weights_of(folder / "averaged"), parts)
    translator = kt.Translator.load(folder / "averaged")
    hypotheses = (folder / "test.hypotheses.txt").read_text().splitlines()
    sources = (config_file.parent / "val.en").read_text().splitlines()
    assert translator.translate(sources) == hypotheses
    text = "the files train.en, train.de"
    assert translator.about == About(name="small", training_text=text)
    assert translator.known_words is None  # it may read words that it has not seen
    assert kt.Translator.load(folder / "best").beam_size == 2
    card = (folder / "averaged" / "README.md").read_text()
    assert "Test: BLEU" in card
    assert "- train.en\n" in card  # and not where it is on this machine
    assert "keras-transformer translate . <" in card
    assert (folder / "logs" / "curve.png").stat().st_size > 1000
    assert metrics(folder)[0].keys() >= {"learning_rate", "tokens_per_second"}
    (events,) = (folder / "logs").glob("events.*")
    written = events.read_bytes()
    assert all(name in written for name in (b"learning_rate", b"tokens_per_second"))
    assert sources[0].encode() in written  # a sample, with its translation

    # Once more: it says that it is finished, and trains no step.
    train(config)
    assert "finished already" in capsys.readouterr().err
    assert len(metrics(folder)) == 3


# `test_fixtures.py` and `test_run_on_devices.py` on each
@pytest.mark.parametrize(
    "options",
    [[], ["precision=mixed_bfloat16", "ema=0.9", "micro_batches=2", "r_drop=5"]],
    ids=["plain", "with options"],
)
def test_a_stopped_run_goes_on_to_the_same_weights(options, config_file, monkeypatch):
    options = [f"training.{option}" for option in options]
    train(load_config(config_file, [*options, "output=whole"]))

    stopped = load_config(config_file, [*options, "output=stopped"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(3))
        with pytest.raises(running.Interrupted, match="SIGTERM at step 3") as error:
            train(stopped)
    assert error.value.exit_code == 143
    folder = config_file.parent
    assert (folder / "stopped" / "checkpoints" / "step-0000003").is_dir()
    train(stopped)
    assert_equal_runs(folder / "stopped", folder / "whole")
    # The checkpoint of the signal is no part of the average.
    assert not (folder / "stopped" / "checkpoints" / "step-0000003").exists()


def test_the_log_may_be_closer_than_the_checkpoints(config_file, monkeypatch):
    """It trains the same weights, and a resumed run logs each step once."""
    train(load_config(config_file, ["output=plain"]))
    config = load_config(config_file, ["training.log_every=3", "output=close"])
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(5))
        with pytest.raises(running.Interrupted):
            train(config)
    assert [line["step"] for line in metrics(Path("close"))] == [2, 3, 4]
    train(config)
    assert [line["step"] for line in metrics(Path("close"))] == [2, 3, 4, 6]
    steps = sorted(path.name for path in Path("close", "checkpoints").iterdir())
    assert steps == ["step-0000002", "step-0000004", "step-0000006"]
    assert_equal(*(weights_of(Path(name, "averaged")) for name in ("plain", "close")))


def test_overlong_and_empty_pairs_are_dropped_and_counted(config_file, capsys):
    folder = config_file.parent
    for language in ("en", "de"):
        with (folder / f"train.{language}").open("a") as file:
            file.write("\n" + "1" * 100_000 + "\n")
    train(load_config(config_file, ["training.steps=1"]))
    assert (
        "60 pairs kept, 2 dropped: 1 empty, 1 longer than 200 tokens"
        in capsys.readouterr().err
    )


def test_patience_ends_training_and_the_best_are_kept(config_file, monkeypatch, capsys):
    values = iter([0.5, 3.0, 2.0, 2.5, 1.0, 9.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    options = ["steps=12", "validate_every=2", "patience=3", "average_best=2"]
    options = [f"training.{option}" for option in [*options, "keep_checkpoints=1"]]
    config = load_config(config_file, options)
    train(config)
    folder = config_file.parent / "runs" / "small"
    assert "no better validation since step 4: training ends" in capsys.readouterr().err
    assert [line["step"] for line in metrics(folder)] == [2, 4, 6, 8, 10]
    # The best two, and the last one.
    found = checkpoints.list_checkpoints(folder)
    assert list(found) == [4, 8, 10]
    parts = [weights_of(found[step]) for step in (4, 8)]
    assert_mean(weights_of(folder / "averaged"), parts)
    assert_equal(weights_of(folder / "best"), parts[0])
    train(config)
    assert "finished already" in capsys.readouterr().err


def test_the_running_mean_is_what_is_validated_and_kept(config_file):
    """The weights go on as without it; the mean is that of the checkpoints."""
    once = ["training.checkpoint_every=1"]
    train(load_config(config_file, [*once, "output=plain"]))
    train(load_config(config_file, [*once, "training.ema=0.5", "output=mean"]))
    steps = checkpoints.list_checkpoints("mean")
    weights = {step: weights_of(path) for step, path in steps.items()}
    plain = checkpoints.list_checkpoints("plain")
    assert_equal(weights[6], weights_of(plain[6]))
    mean = weights[1]
    for step in range(2, 7):
        mean = {k: 0.5 * mean[k] + 0.5 * array for k, array in weights[step].items()}
    for name, array in weights_of(config_file.parent / "mean" / "averaged").items():
        np.testing.assert_allclose(array, mean[name], rtol=1e-5, atol=1e-7)


# `test_gradients.py` does so on each
def test_micro_batches_and_clipping_train_as_the_whole_batch(config_file):
    clipped = ["training.clip_norm=0.1"]
    train(load_config(config_file, [*clipped, "output=whole"]))
    train(
        load_config(config_file, [*clipped, "training.micro_batches=2", "output=parts"])
    )
    train(load_config(config_file, ["output=free"]))
    ends = [weights_of(Path(name, "averaged")) for name in ("whole", "parts", "free")]
    for name, array in ends[0].items():
        np.testing.assert_allclose(ends[1][name], array, rtol=0, atol=2e-5)
    assert any(abs(ends[2][name] - a).max() > 1e-3 for name, a in ends[0].items())
    assert all(line["gradient_norm"] > 0.1 for line in metrics(Path("whole")))


def test_r_drop_adds_how_far_two_passes_are_apart(config_file):
    options = ["training.label_smoothing=0", "training.r_drop=5", "output=run"]
    train(load_config(config_file, options))
    logs = [line for line in metrics(config_file.parent / "run") if "loss" in line]
    assert logs and all(line["loss"] > line["nll"] + 1e-3 for line in logs)


def test_simcut_is_a_section_of_the_config(config_file):
    options = ["training.label_smoothing=0", "training.simcut.probability=0.4"]
    train(load_config(config_file, [*options, "output=run"]))
    logs = [line for line in metrics(config_file.parent / "run") if "loss" in line]
    assert logs and all(line["loss"] > line["nll"] + 1e-3 for line in logs)
    with pytest.raises(InputError, match="give r_drop or simcut"):
        load_config(config_file, [*options, "training.r_drop=1"])


@pytest.mark.parametrize("metric", ["chrf", "loss"])
def test_what_is_best_is_a_choice(metric, config_file):
    options = [f"training.best_metric={metric}", "training.validate_every=2"]
    train(load_config(config_file, [*options, "training.keep_best=1"]))
    folder = config_file.parent / "runs" / "small"
    key, sign = ("val_nll", -1.0) if metric == "loss" else ("val_chrf", 1.0)
    logged = [[line["step"], sign * line[key]] for line in metrics(folder)]
    state = checkpoints.read_state(checkpoints.list_checkpoints(folder)[6])
    np.testing.assert_allclose(state["scores"], logged, rtol=1e-6)
    step, _ = max(logged, key=lambda item: item[1])
    kept = checkpoints.list_checkpoints(folder)
    assert_equal(weights_of(folder / "best"), weights_of(kept[step]))


def test_a_metric_of_ones_own_says_what_is_best(config_file, monkeypatch, capsys):
    calls, values = [], iter([0.75, 0.5, 0.25, 0.125])

    def fake(sources, hypotheses, references):
        calls.append((sources, hypotheses, references))
        return [next(values)] * len(sources)

    module = types.ModuleType("named_metrics")
    module.fake = fake
    monkeypatch.setitem(sys.modules, module.__name__, module)
    options = ["training.validate_every=2", "training.average_best=1"]
    metric = "named_metrics:fake"
    with pytest.raises(InputError, match="best_metric named_metrics:fake is none of"):
        load_config(config_file, [*options, f"training.best_metric={metric}"])
    options += [f"training.best_metric={metric}", f"evaluation.metrics=[{metric}]"]
    scores = train(load_config(config_file, options))
    folder = config_file.parent / "runs" / "small"
    assert [line[f"val_{metric}"] for line in metrics(folder)] == [0.75, 0.5, 0.25]
    assert_equal(
        weights_of(folder / "averaged"), weights_of(folder / "checkpoints/step-0000002")
    )
    assert (scores[-1].name, scores[-1].score) == ("fake", 0.125)
    assert "fake = 0.1250 ± 0.0000 (named_metrics:fake|" in capsys.readouterr().out
    assert len(calls) == 4
    sources, hypotheses, references = calls[0]
    assert sources == read_lines(config_file.with_name("val.en"))
    assert references == read_lines(config_file.with_name("val.de"))
    assert len(hypotheses) == len(sources)


def test_the_best_alone_may_be_what_is_delivered(config_file, monkeypatch):
    values = iter([3.0, 2.0, 1.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    train(
        load_config(
            config_file, ["training.validate_every=2", "training.average_best=1"]
        )
    )
    folder = config_file.parent / "runs" / "small"
    assert_equal(weights_of(folder / "averaged"), weights_of(folder / "best"))
    assert_equal(
        weights_of(folder / "best"), weights_of(folder / "checkpoints" / "step-0000002")
    )


def test_checkpoints_of_a_run_under_way_are_averaged(config_file, monkeypatch):
    """Before there is any `averaged/`, and without what a signal left."""
    values = iter([3.0, 1.0])
    monkeypatch.setattr(Validation, "score", lambda self, _: next(values))
    config = load_config(config_file, ["training.validate_every=2"])
    folder = config_file.parent / "runs" / "small"
    for step in (3, 5):
        with monkeypatch.context() as patch:
            patch.setattr(running, "Progress", terminating_at(step))
            with pytest.raises(running.Interrupted):
                train(config)
    kept = checkpoints.list_checkpoints(folder)
    assert list(kept) == [2, 4, 5]
    average(folder, 2, "last")
    assert_mean(weights_of(Path("last")), [weights_of(kept[step]) for step in (4, 5)])
    average(folder, None, "best", best=1)
    assert_equal(weights_of(Path("best")), weights_of(kept[2]))
    assert kt.Translator.load("best").beam_size == 2
    with pytest.raises(InputError, match="has 3 checkpoints; --last must be between"):
        average(folder, 4, "more")
    with pytest.raises(InputError, match="has 2 checkpoints with a validation; --best"):
        average(folder, 5, "more", best=3)
    with pytest.raises(InputError, match="is not a run folder; give one that train"):
        average(folder / "best", 1, "more")


def test_processes_agree_on_the_least_token_budget(config_file, tmp_path):
    config = load_config(config_file, ["data.batch_tokens=auto"])
    asked = []

    def largest(number):
        asked.append(number)
        return max(number, -200.0)  # the other process finds 200

    for process in (0, 1):
        there = Distribution(process_index=process, num_processes=2, max=largest)
        path = tmp_path / f"{process}"
        path.mkdir()
        assert run_folder.batch_tokens(path, config, there, lambda: 300) == 200
        assert (path / "batch_tokens").exists() == (process == 0)
    assert asked == [True, -300, True, -300]


def test_the_token_budget_is_found_once(config_file, monkeypatch):
    monkeypatch.setattr(assembly, "find_batch_tokens", lambda *_: 300)
    config = load_config(config_file, ["data.batch_tokens=auto", "training.steps=2"])
    train(config)
    monkeypatch.setattr(assembly, "find_batch_tokens", lambda *_: 200)
    train(config)
    assert Path("runs/small/batch_tokens").read_text() == "300\n"


def test_a_model_whose_source_has_no_end_learns_from_sources_without(config_file):
    config = load_config(config_file, ["model.source_end=false"])
    with run_opening.opened(config):
        parts = assembly.build_parts(config, Distribution(), print)
    end = parts.translator.model.config.end_id
    for batches in (parts.batches, parts.validation.batches):
        inputs, labels, _ = batches[0]
        assert end in labels and end not in inputs["source"]


def test_another_process_with_another_text_takes_nothing_away(config_file):
    config = load_config(config_file)
    with run_opening.opened(config) as folder:
        assembly.build_parts(config, Distribution(), print)
        before = {path: path.stat().st_mtime_ns for path in folder.rglob("*")}
        with (config_file.parent / "train.en").open("a") as file:
            file.write("more\n")
        other = Distribution(process_index=1, num_processes=2)
        with pytest.raises(InputError, match=r"another corpus .*train\.en: 60 lines"):
            assembly.build_parts(config, other, print)
        assert before == {path: path.stat().st_mtime_ns for path in folder.rglob("*")}


def test_a_trained_model_learns_on_with_frozen_parts(config_file):
    train(load_config(config_file))
    before = weights_of(Path("runs/small/averaged"))
    config = yaml.safe_load(small_run.CONFIG)
    del config["tokenizer"]
    config["model"] = {"folder": "runs/small/averaged", "dropout": 0.0}
    file = config_file.with_name("tuned.yaml")
    file.write_text(yaml.safe_dump(config))
    train(load_config(file, ["training.freeze=[embeddings, encoder]"]))
    after = weights_of(Path("runs/tuned/averaged"))
    for name, array in before.items():
        learns = name.startswith("decoder_")
        assert np.array_equal(after[name], array) != learns, name
    # The run folder says all that it was made with.
    train(load_config(Path("runs/tuned/config.yaml"), ["output=runs/tuned"]))


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("model: {folder: runs/small/averaged, preset: tiny}", "remove one of the two"),
        ("model: {folder: runs/small/averaged, num_heads: 4}", "not that of the train"),
        ("model: {folder: nowhere}", "nowhere is not a model folder"),
    ],
)
def test_a_trained_model_keeps_its_architecture(line, message, config_file, tmp_path):
    shutil.copytree(FIXTURE, tmp_path / "runs" / "small" / "averaged")
    file = tmp_path / "tuned.yaml"
    file.write_text(f"{line}\ndata: {{phrasebook: en-de}}")
    with pytest.raises(InputError, match=message):
        load_config(file)


def test_a_metric_that_fails_takes_no_step_and_no_model(config_file, monkeypatch):
    """At the first validation, at the last one, and then at the test."""
    calls = []

    def failing(sources, hypotheses, references):
        calls.append(len(sources))
        if len(calls) in (1, 3, 5):
            raise RuntimeError("no connection")
        return 0.5

    module = types.ModuleType("named_metrics")
    module.failing = failing
    monkeypatch.setitem(sys.modules, module.__name__, module)
    options = ["evaluation.metrics=[named_metrics:failing]", "data.test.tsv=test.tsv"]
    options += ["data.test.source=null", "data.test.target=null"]
    pairs = zip(*map(read_lines, ("val.en", "val.de")), strict=True)
    Path("test.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in pairs))
    config = load_config(config_file, [*options, "training.checkpoint_every=4"])
    message = r"metric named_metrics:failing failed in .*RuntimeError: no connection"
    folder = config_file.parent / "runs" / "small"
    for kept, validated in (([4], []), ([4, 6], [4]), ([4, 6], [4, 6])):
        with pytest.raises(InputError, match=message):
            train(config)  # of which the third has all steps
        assert list(checkpoints.list_checkpoints(folder)) == kept
        state = newest_state(folder)
        assert [step for step, _ in state.scores] == validated
        if validated:
            lines = [line["step"] for line in metrics(folder) if "val_bleu" in line]
            assert lines == validated
    assert (folder / "best").is_dir()
    tested = weights_of(folder / "averaged")
    assert len(train(config)) == 4
    assert_equal(weights_of(folder / "averaged"), tested)
    assert "Test: failing = 0.5" in (folder / "averaged" / "README.md").read_text()
