"""The model folder of the fixtures, its text, and what an export must do without."""

import os
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "fixtures" / "en-de.format-1"
#: What a process that runs an export must not find.
BLOCKED = ("jax", "keras", "keras_transformer", "tensorflow", "torch")
#: Marks of a module whose exports TensorFlow alone makes in its own process.
ON_TENSORFLOW = [
    pytest.mark.export,
    pytest.mark.one_backend("tensorflow"),
    pytest.mark.skipif(
        os.environ["KERAS_BACKEND"] != "tensorflow", reason="TensorFlow exports"
    ),
]


def lines(name):
    """Of its `source`, or of its translations, `greedy` and `beam`."""
    return (FOLDER / f"{name}.txt").read_text("utf-8").split("\n")[:-1]
