"""The annotations are for the users of the package, too, and few errors are ignored.

The checker itself, mypy, is a stage of `tests/run.py`.
"""

import ast
import importlib
import re
import tomllib
from importlib import resources
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "keras_transformer"


def test_type_checkers_are_told_that_the_package_has_types():
    assert resources.files("keras_transformer").joinpath("py.typed").is_file()
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    files = project["tool"]["setuptools"]["package-data"]["keras_transformer"]
    assert "py.typed" in files


@pytest.mark.parametrize("room", ["", "data", "export", "training", "visualization"])
def test_type_checkers_see_the_public_names_that_are_loaded_when_used(room):
    source = ast.parse((PACKAGE / room / "__init__.py").read_text("utf-8"))
    names = {
        alias.asname
        for node in ast.walk(source)
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    module = importlib.import_module(f"keras_transformer.{room}".rstrip("."))
    assert set(module.__all__) - {"__version__"} <= names


def test_few_errors_are_ignored_each_with_its_reason():
    lines = [
        f"{path.name}: {line.strip()}"
        for path in PACKAGE.rglob("*.py")
        for line in path.read_text("utf-8").splitlines()
        if "type: ignore" in line
    ]
    assert len(lines) <= 6
    assert all(re.search(r"# type: ignore\[[\w-]+\]  # \w+", line) for line in lines)
