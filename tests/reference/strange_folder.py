"""A model folder that a test may spoil, and what reading it costs."""

import json
import tracemalloc
from pathlib import Path

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


def peak_of(run):
    """The most memory, in bytes, that Python takes while a function runs."""
    tracemalloc.start()
    try:
        run()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
