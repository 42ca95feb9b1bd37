"""A run killed at random instants ends as one that was left alone."""

import json
import random
import signal
import subprocess
import sys

import digit_text
import numpy as np
import pytest

from keras_transformer.models.weights import read_arrays

pytestmark = pytest.mark.slow

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 270, split_digits: true}
data: {train: [{tsv: train.tsv}], validation: {tsv: validation.tsv}, batch_tokens: 64,
       bpe_dropout: 0.1}
training: {steps: 24, warmup_steps: 20, learning_rate: 0.01, validate_every: 12,
           checkpoint_every: 3, keep_checkpoints: 100}
"""
# Kills itself before a file or folder gets its name for the so many'th time, or so many
# seconds after the first checkpoint that it writes.
KILLED = """
import os, pathlib, signal, sys, threading
from keras_transformer.training import checkpoints, load_config, run

def die():
    os.kill(os.getpid(), signal.SIGKILL)

def named(path, target, name):
    global left
    left -= 1
    if not left:
        die()
    return name(path, target)

def save_and_wait(*arguments):
    global delay
    if delay:
        threading.Timer(delay, die).start()
        delay = None
    save(*arguments)

left, delay, save = int(sys.argv[2]), float(sys.argv[3]), checkpoints.save_checkpoint
for way in ("rename", "replace"):
    name = getattr(pathlib.Path, way)
    setattr(pathlib.Path, way, lambda p, to, name=name: named(p, to, name))
run.save_checkpoint = save_and_wait
run.train(load_config(sys.argv[1]))
"""


def train(folder, names=0, delay=0.0):
    """One process; returns its exit code and what it said."""
    done = subprocess.run(
        [sys.executable, "-c", KILLED, "small.yaml", str(names), str(delay)],
        cwd=folder,
        capture_output=True,
        encoding="utf-8",
        timeout=300,
    )
    return done.returncode, done.stderr


def lines_of(folder):
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    timed = ("seconds", "tokens_per_second")
    return [
        {name: value for name, value in json.loads(line).items() if name not in timed}
        for line in lines
    ]


@pytest.fixture
def folders(tmp_path):
    """Two folders with the same corpus and config."""
    for folder in (tmp_path / "killed", tmp_path / "whole"):
        folder.mkdir()
        (folder / "small.yaml").write_text(CONFIG)
        digit_text.write_tsv(folder / "train.tsv", 60)
        digit_text.write_tsv(folder / "validation.tsv", 3, seed=2)
    return tmp_path / "killed", tmp_path / "whole"


@pytest.mark.one_backend
def test_killed_at_random_instants_a_run_ends_as_one_left_alone(folders):
    killed, whole = folders
    code, message = train(whole)
    assert code == 0, message

    # Before the config is whole, in the midst of preparing or of the first checkpoints,
    # and anywhere.
    chance = random.SystemRandom()
    moments = [(1, 0), (chance.randint(2, 20), 0), (0, chance.uniform(0.05, 1.0))]
    codes = [train(killed, *moment)[0] for moment in moments]
    assert codes[:2] == [-signal.SIGKILL] * 2, moments
    code, message = train(killed)
    assert code == 0, message

    runs = [folder / "runs" / "small" for folder in folders]
    assert lines_of(runs[0]) == lines_of(runs[1]), moments
    steps = [int(path.name[5:]) for path in (runs[0] / "checkpoints").iterdir()]
    assert sorted(steps) == list(range(3, 25, 3)), moments
    for step in (f"checkpoints/step-{steps[-1]:07d}", "averaged", "best"):
        one, other = (read_arrays(run / step / "model.weights.h5") for run in runs)
        assert one.keys() == other.keys()
        for name, array in one.items():
            np.testing.assert_array_equal(array, other[name], err_msg=f"{step} {name}")
