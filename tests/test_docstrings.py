"""Every example in a docstring runs and prints what it says."""

import doctest
import importlib
from pathlib import Path

import keras
import pytest

ROOT = Path(__file__).resolve().parents[1]
MODULES = sorted(
    ".".join(path.relative_to(ROOT).with_suffix("").parts)
    for path in (ROOT / "keras_transformer").rglob("*.py")
    if ">>>" in path.read_text(encoding="utf-8")
)


@pytest.mark.one_backend
@pytest.mark.parametrize("name", MODULES)
def test_examples(name):
    module = importlib.import_module(name)
    keras.utils.set_random_seed(1)
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE)
    for example in finder.find(module, name):
        runner.run(example)
    assert runner.tries > 0
    assert runner.failures == 0
