"""Every lesson runs, in its fast mode, without a warning.

Each on one backend, PyTorch where nothing speaks for another, as it compiles nothing;
those that start many commands on JAX, which loads soonest; on all of them where the
environment variable EVERY_TEST is set. On TensorFlow `test_phrasebook_job.py` trains.
"""

import os
import subprocess
import sys
from pathlib import Path

import keras
import pytest

#: Number of the lesson -> its backend. The seventh exports, as README does.
BACKENDS = dict.fromkeys(("01", "04", "05"), "jax") | {"07": "tensorflow"}
LESSONS = [
    path
    for path in sorted((Path(__file__).parents[2] / "tutorials").glob("[0-9]*.py"))
    if BACKENDS.get(path.name[:2], "torch") == keras.backend.backend()
    or os.environ.get("EVERY_TEST")
]


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lesson_runs(lesson, tmp_path):
    environment = {
        **os.environ,
        "TUTORIAL_FAST": "1",
        "TF_CPP_MIN_LOG_LEVEL": "3",
        "MPLBACKEND": "Agg",
    }
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(lesson)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert run.stdout
