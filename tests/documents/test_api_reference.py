"""The API reference has a place for every public name, and nothing else has."""

import re
import runpy
import types
from pathlib import Path

import pytest

import keras_transformer

BUILD = Path(__file__).resolve().parents[2] / "docs" / "build_api.py"


def public_names(module):
    """`module: names` for a module and its public submodules, at any depth."""
    found = {module.__name__: set()}
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            found |= public_names(value)
        else:
            found[module.__name__].add(name)
    return found


@pytest.mark.one_backend
def test_every_public_name_has_its_place(tmp_path):
    pytest.importorskip("pdoc")
    build = runpy.run_path(str(BUILD))["build"]
    build(tmp_path)
    expected = public_names(keras_transformer)
    pages = {
        ".".join(path.relative_to(tmp_path).with_suffix("").parts): path
        for path in tmp_path.rglob("*.html")
        if path.name != "index.html"
    }
    assert set(pages) == set(expected)
    for module, names in expected.items():
        text = pages[module].read_text(encoding="utf-8")
        places = set(re.findall(r'<section id="(\w+)"', text))
        assert names <= places, (module, names - places)
    block = pages["keras_transformer.layers"].read_text(encoding="utf-8")
    assert "<li><strong>cross_attention_mask:</strong>" in block
    configs = " ".join(pages["keras_transformer"].read_text(encoding="utf-8").split())
    assert "<li><strong>intermediate_dim:</strong> Feed-forward dimension F" in configs
    assert "(default 2048)" in configs
    runs = " ".join(pages["keras_transformer.training"].read_text("utf-8").split())
    assert "<li><strong>micro_batches:</strong> Gradient accumulation: parts" in runs
    assert "(default 100000)" in runs
