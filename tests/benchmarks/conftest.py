"""The benchmarks as programs: run in their folder, at toy size."""

import json
import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

FOLDER = Path(__file__).parents[2] / "benchmarks"
#: The name of this package's programs on the backend of the tests.
OURS = {"jax": "ours, JAX", "torch": "ours, PyTorch"}

sys.path.insert(0, str(FOLDER))


@pytest.fixture
def ours():
    """See `OURS`; the GPU's benchmarks never run on TensorFlow."""
    name = keras.backend.backend()
    if name not in OURS:
        pytest.skip("runs on JAX or PyTorch")
    return OURS[name]


@pytest.fixture
def run_benchmark(tmp_path):
    """`run_benchmark(module, *arguments)`: what it printed, and wrote as JSON."""

    def run(module, *arguments):
        path = tmp_path / "found.json"
        done = subprocess.run(
            [sys.executable, "-m", module, *map(str, arguments), "--json", str(path)],
            cwd=FOLDER,
            # Compiled peers are for GPUs: here it would take minutes.
            env={**os.environ, "TORCHDYNAMO_DISABLE": "1"},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout, json.loads(path.read_text())

    return run
