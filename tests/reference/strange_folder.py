"""A model folder that a test may spoil, and what reading it costs."""

import json
import tracemalloc
from pathlib import Path

import pytest

from keras_transformer.errors import InputError

FOLDER = Path(__file__).parents[1] / "fixtures" / "en-de.format-1"
FILES = ("config.json", "model.weights.h5", "tokenizer.model")


def edit(folder, part, **changes):
    """Changes keys of a part of `config.json`; of all of it where `part` is None."""
    path = folder / "config.json"
    config = json.loads(path.read_text())
    if part is None:
        config |= changes
    elif isinstance(config[part], dict):
        config[part] |= changes
    path.write_text(json.dumps(config))


def refused_by(load, message):
    """Fails unless loading ends in one short line that `message` is found in."""
    with pytest.raises(InputError, match=message) as error:
        load()
    assert "\n" not in str(error.value)
    assert len(str(error.value)) < 1000


def peak_of(run):
    """The most memory, in bytes, that Python takes while a function runs."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
