"""The program in this process, or in one of its own, with a fake model."""

import gc
import importlib.util
import os
import signal
import subprocess
import sys
from pathlib import Path

import fake_program
import pytest
from typer.testing import CliRunner

from keras_transformer.cli import backend
from keras_transformer.cli.main import application

PROGRAM = Path(__file__).with_name("fake_program.py")
ROOT = Path(importlib.util.find_spec("keras_transformer").origin).parents[1]


@pytest.fixture(autouse=True)
def garbage_is_looked_for_as_before():
    """Commands change how often, in what for them is a process of their own."""
    threshold = gc.get_threshold()
    yield
    gc.set_threshold(*threshold)


@pytest.fixture
def model(tmp_path, monkeypatch):
    """A folder that stands for the fake model, which every command then loads."""
    monkeypatch.setitem(sys.modules, fake_program.MODULE.__name__, fake_program.MODULE)
    monkeypatch.setattr(backend, "load_keras", lambda: None)  # it needs none
    monkeypatch.setenv("KERAS_BACKEND", os.environ["KERAS_BACKEND"])
    folder = tmp_path / "model"
    folder.mkdir()
    return folder


@pytest.fixture
def invoke():
    """`invoke(*arguments, input=None)`; exceptions are raised, not printed."""

    def run(*arguments, input=None):
        return CliRunner().invoke(
            application(),
            [str(argument) for argument in arguments],
            input=input,
            catch_exceptions=False,
        )

    return run


@pytest.fixture
def start(tmp_path):
    """`start(*arguments, **options)`: the program as a process of its own, in bytes."""
    processes = []

    def run(*arguments, env=(), **options):
        pipe = subprocess.PIPE
        defaults = {
            "stdin": pipe,
            "stdout": pipe,
            "stderr": pipe,
            # A test run in the background ignores ctrl-C, and so would its children.
            "preexec_fn": lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        }
        process = subprocess.Popen(
            [sys.executable, PROGRAM, *map(str, arguments)],
            env={**os.environ, "PYTHONPATH": str(ROOT), **dict(env)},
            **{**defaults, **options},
        )
        processes.append(process)
        return process

    yield run
    for process in processes:
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout, process.stderr):
            if pipe is not None:
                pipe.close()
