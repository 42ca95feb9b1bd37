"""`gpu/quality.py`: grids, tables, and one run of the train command."""

import json
from pathlib import Path

import pytest
from gpu import quality

from keras_transformer.data import phrasebook
from training.digit_text import VOCABULARY_SIZE
from training.digit_text import write_files
from training.digit_text import write_tsv

CONFIG = f"""
data:
  train: [{{source: train.en, target: train.de}}]
  validation: {{source: val.en, target: val.de}}
  test: {{tsv: test.tsv}}
  batch_tokens: 64
tokenizer: {{vocabulary_size: {VOCABULARY_SIZE}}}
model:
  hidden_dim: 16
  intermediate_dim: 32
  num_heads: 2
  num_encoder_layers: 1
  num_decoder_layers: 1
training: {{steps: 4, warmup_steps: 2, validate_every: 4, checkpoint_every: 4}}
decoding: {{beam_size: 1}}
output: runs/digits
"""


@pytest.mark.slow
@pytest.mark.one_backend
def test_a_run_is_scored_and_not_made_twice(run_benchmark, ours, tmp_path):
    (tmp_path / "digits.yaml").write_text(CONFIG)
    for name, count in (("train", 40), ("val", 4)):
        write_files(tmp_path, name, count)
    write_tsv(tmp_path / "test.tsv", 4)
    arguments = [tmp_path / "digits.yaml", "--output", tmp_path / "runs"]
    arguments += ["--grid", "model.dropout=0.2"]
    output, found = run_benchmark("gpu.quality", *arguments)
    (run,) = found["runs"]
    assert run["ended"] and run["step"] == 4 and run["seed"] == 1
    assert sorted(run["test"]) == ["BLEU", "TER", "chrF2"]
    assert "| model.dropout=0.2 | 1 | test BLEU |" in output
    folder = next(path for path in (tmp_path / "runs").iterdir() if path.is_dir())
    log = folder.with_name(f"{folder.name}.log").read_text()
    assert "model folder" in log
    output, again = run_benchmark("gpu.quality", *arguments)
    assert again["runs"] == found["runs"]
    assert folder.with_name(f"{folder.name}.log").read_text() == log


@pytest.mark.no_backend
def test_a_grid_is_every_combination():
    assert quality.grid([]) == [[]]
    assert quality.grid(["a.b=1,2", "c=x"]) == [["a.b=1", "c=x"], ["a.b=2", "c=x"]]
    with pytest.raises(SystemExit, match="KEY=A,B"):
        quality.grid(["a.b"])


@pytest.mark.no_backend
def test_a_phrasebook_is_scored(tmp_path):
    references = phrasebook.load("en", "de", "test")[1]
    lines = "".join(f"{line}\n" for line in references)
    (tmp_path / "test.hypotheses.txt").write_text(lines, encoding="utf-8")
    (tmp_path / "config.yaml").write_text("data: {phrasebook: en-de}")
    assert round(quality._test(tmp_path)["BLEU"][0], 6) == 100


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("axis", "message"),
    [
        ("model.droupot=0.1,0.2", "droupot"),
        ("data.test.tsv=nowhere.tsv", "nowhere.tsv"),
    ],
)
def test_what_is_wrong_is_told_before_a_training(tmp_path, monkeypatch, axis, message):
    (tmp_path / "digits.yaml").write_text(CONFIG)
    write_files(tmp_path, "val", 4)
    write_tsv(tmp_path / "test.tsv", 4)
    arguments = ["quality", str(tmp_path / "digits.yaml"), "--grid", axis]
    monkeypatch.setattr("sys.argv", arguments)
    monkeypatch.setattr(quality, "train", lambda *_: pytest.fail("trains"))
    with pytest.raises(SystemExit, match=f"error: .*{message}"):
        quality.main()


@pytest.mark.no_backend
def test_runs_of_one_config_have_folders_of_their_own():
    folders = {
        quality.Run("c/x.yaml", Path("runs"), settings, seed).folder
        for settings in ([], ["model.dropout=0.1"])
        for seed in (1, 2)
    }
    assert len(folders) == 4


@pytest.mark.no_backend
def test_means_are_over_seeds_and_the_best_comes_first():
    def run(settings, seed, validation, test, ended=True):
        return {
            "settings": settings,
            "seed": seed,
            "ended": ended,
            "best_validation_bleu": validation,
            "test": {"BLEU": [test, "signature"]},
        }

    rows = quality.summary(
        [
            run([], 1, 30.0, 40.0),
            run(["a=1"], 1, 33.0, 37.0),
            run(["a=1"], 2, 35.0, 38.0),
            run(["a=1"], 3, 99.0, 99.0, ended=False),
        ]
    )
    assert rows == [
        ["a=1", "2", "validation BLEU", "34.00 ± 1.41"],
        ["a=1", "2", "test BLEU", "37.50 ± 0.71"],
        ["as it is", "1", "validation BLEU", "30.00"],
        ["as it is", "1", "test BLEU", "40.00"],
    ]


@pytest.mark.no_backend
def test_progress_is_that_of_the_log(tmp_path):
    path = tmp_path / "metrics.jsonl"
    nothing = {"step": 0, "best_validation_bleu": None}
    assert quality._progress(path) == nothing
    rows = [{"step": 5, "val_bleu": 3.0}, {"step": 6}, {"step": 7, "val_bleu": 2.0}]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    assert quality._progress(path) == {"step": 7, "best_validation_bleu": 3.0}
