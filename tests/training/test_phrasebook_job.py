"""The main job, as the README's first command runs it, at reduced size."""

import json
import re

import pytest

TINY = {
    "model.num_encoder_layers": 1,
    "model.num_decoder_layers": 1,
    "model.hidden_dim": 64,
    "model.intermediate_dim": 128,
    "training.steps": 120,
    "training.warmup_steps": 40,
    "training.checkpoint_every": 60,
    "training.validate_every": 120,
    "decoding.beam_size": 1,
}


@pytest.mark.one_backend("tensorflow")
@pytest.mark.slow
def test_the_phrasebook_job_learns_and_ends_with_its_score(run_python, tmp_path):
    overrides = [f"--set={key}={value}" for key, value in TINY.items()]
    output = run_python(
        [
            "-m",
            "keras_transformer.cli.main",
            "train",
            *overrides,
            f"--set=output={tmp_path / 'run'}",
        ]
    )
    last = output.splitlines()[-1]
    assert re.fullmatch(r"test BLEU = \d+\.\d nrefs:1\|.*\|version:\S+", last)
    metrics = (tmp_path / "run" / "logs" / "metrics.jsonl").read_text().splitlines()
    assert json.loads(metrics[-1])["val_nll"] < 5.5  # untrained: ln 3000 = 8.0
    assert (tmp_path / "run" / "averaged" / "model.weights.h5").is_file()
