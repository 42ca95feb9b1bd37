"""Every lesson runs, in its fast mode, without a warning."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

LESSONS = sorted((Path(__file__).parents[1] / "tutorials").glob("[0-9]*.py"))


@pytest.mark.slow
@pytest.mark.parametrize("lesson", LESSONS, ids=lambda path: path.stem)
def test_lesson_runs(lesson, tmp_path):
    environment = {**os.environ, "TUTORIAL_FAST": "1", "TF_CPP_MIN_LOG_LEVEL": "3"}
    run = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", str(lesson)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stderr
    assert "BLEU" in run.stdout
