"""Runs with a teacher: what they learn, keep, and refuse when they go on."""

import json
import shutil

import pytest
from small_run import assert_equal_runs
from small_run import metrics
from small_run import terminating_at

import keras_transformer as kt
from keras_transformer.errors import InputError
from keras_transformer.models.weights import read_arrays
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import train

pytestmark = pytest.mark.one_backend


@pytest.fixture
def load(project, tmp_path, monkeypatch):
    """A student's config, with a copy of a trained model as its teacher."""
    monkeypatch.chdir(project)
    teacher = shutil.copytree(project / "run" / "averaged", tmp_path / "teacher")

    def load_run(name, *options):
        return load_config(
            "small.yaml",
            [
                f"output={tmp_path / name}",
                f"tokenizer={{path: {project / 'run' / 'tokenizer.model'}}}",
                f"training.distillation={{teacher: {teacher}, weight: 1}}",
                *("model.hidden_dim=8", "data.test=null", "training.steps=4"),
                *options,
            ],
        )

    return load_run


def test_a_student_learns_resumes_exactly_and_keeps_nothing_of_its_teacher(
    load, project, tmp_path, monkeypatch
):
    options = ["training.micro_batches=2", "data.packing=200", "training.precision"]
    options[-1] += "=mixed_bfloat16"
    train(load("whole", *options))
    logs = [line for line in metrics(tmp_path / "whole") if "loss" in line]
    # The divergence alone: of two models that know little, less than the likelihood.
    assert logs and all(line["loss"] < line["nll"] / 2 for line in logs)
    with monkeypatch.context() as patch:
        patch.setattr(running, "Progress", terminating_at(1))
        with pytest.raises(running.Interrupted):
            train(load("stopped", *options))
    train(load("stopped", *options))
    assert_equal_runs(tmp_path / "whole", tmp_path / "stopped")
    for name in ("model.weights.h5", "state.h5"):
        step = f"checkpoints/step-0000004/{name}"
        found, plain = (
            read_arrays(folder / step)
            for folder in (tmp_path / "whole", project / "run")
        )
        assert found.keys() == plain.keys()
    assert isinstance(
        kt.Translator.load(tmp_path / "whole" / "averaged"), kt.Translator
    )
    teacher = tmp_path / "teacher"
    shutil.rmtree(teacher)
    shutil.copytree(tmp_path / "whole" / "averaged", teacher)
    with pytest.raises(InputError, match="begun with another teacher than"):
        train(load("stopped", *options, "training.steps=6"))


def test_a_teacher_that_does_not_fit_is_refused(load, tmp_path):
    with pytest.raises(InputError, match="has another tokenizer than the run"):
        train(load("other", "tokenizer={vocabulary_size: 271}"))
    with pytest.raises(InputError, match=r"has source_end True, .* model\.source_end"):
        train(load("end", "model.source_end=false"))
    with pytest.raises(InputError, match="none"):
        train(load("none", f"training.distillation.teacher={tmp_path / 'none'}"))
    with pytest.raises(InputError, match="does not go with r_drop or simcut"):
        load("twice", "training.r_drop=1")
    with pytest.raises(InputError, match=r"training\.distillation\.weight: .*1"):
        load("weight", "training.distillation.weight=1.5")


def test_a_teacher_that_reads_otherwise_is_refused(load, tmp_path):
    languages = "source_language: en, target_language: de"
    text = f"data.train=[{{source: train.en, target: train.de, {languages}}}]"
    told = [text, "data.validation=null"]
    alone = [*told, "tokenizer={vocabulary_size: 290}", "training.distillation=null"]
    learned = ["model.position=learned", "model.max_sequence_length=200"]
    train(load("told", *alone, *learned, "training.steps=1"))
    own = f"tokenizer={{path: {tmp_path / 'told' / 'tokenizer.model'}}}"
    teacher = f"training.distillation.teacher={tmp_path / 'told' / 'averaged'}"
    with pytest.raises(InputError, match="languages in another way than the model"):
        train(load("untold", own, teacher, "data.validation=null"))
    with pytest.raises(InputError, match=r"max_length 201 is more than the 200 posit"):
        train(load("long", own, teacher, *told, "data.max_length=201"))
    train(load("fits", own, teacher, *told, "training.steps=1"))


def test_what_a_folder_tells_of_its_model_makes_no_other_teacher(load, tmp_path):
    train(load("run"))
    config = tmp_path / "teacher" / "config.json"
    content = json.loads(config.read_text())
    content["about"] = {**content.get("about", {}), "name": "a better name"}
    config.write_text(json.dumps(content))
    train(load("run", "training.steps=6"))
    content["model"]["dropout"] = 0.5
    config.write_text(json.dumps(content))
    with pytest.raises(InputError, match="begun with another teacher than"):
        train(load("run", "training.steps=8"))
