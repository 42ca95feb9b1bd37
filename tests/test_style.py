"""Form: whole words and docstrings; ruff holds the rest."""

import ast
import functools
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[1]
SOURCES = {
    str(path.relative_to(ROOT)): path
    for folder in ("keras_transformer", "tests", "benchmarks")
    for path in sorted((ROOT / folder).rglob("*.py"))
}
PACKAGE = [path for path in SOURCES if path.startswith("keras_transformer/")]

#: Words that have one spelling in this package: source, target, attention, ...
DENIED_WORDS = {"attn", "ffn", "src", "tgt"}
DENIED_NAMES = {"d_model"}
DENIED_FILES = {"misc.py", "utils.py"}

REFERENCE = re.compile(r"\b(19|20)\d\d\b.*https?://", re.DOTALL)
SHAPE = re.compile(r"\([BTSDFHKVWL](, [\w. */+-]+)+\)")


@functools.cache
def tree(path: str) -> ast.Module:
    return ast.parse(SOURCES[path].read_text(encoding="utf-8"))


def bound_names(source: ast.Module) -> Iterator[str]:
    """Names that a file gives: not those that it only reads from others."""
    for node in ast.walk(source):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            yield node.name
        elif isinstance(node, ast.arg):
            yield node.arg
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
            if isinstance(node.value, ast.Name) and node.value.id == "self":
                yield node.attr
        elif isinstance(node, ast.alias) and node.asname:
            yield node.asname


def is_denied(name: str) -> bool:
    words = re.split(r"_|(?<=[a-z0-9])(?=[A-Z])", name)
    return name in DENIED_NAMES or bool(DENIED_WORDS & {w.lower() for w in words})


def public_classes(source: ast.Module) -> Iterator[ast.ClassDef]:
    for node in source.body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node


def test_names_are_whole_words():
    faults = [
        f"{path}: {name}"
        for path in SOURCES
        for name in sorted(set(bound_names(tree(path))))
        if is_denied(name)
    ]
    assert not faults, "\n".join(faults)


@pytest.mark.parametrize(
    ("name", "denied"),
    [
        ("src_mask", True),
        ("d_model", True),
        ("CrossAttnLayer", True),
        ("source_mask", False),
        ("attention", False),
    ],
)
def test_half_words_are_seen(name, denied):
    assert is_denied(name) == denied


def test_files_are_named_after_what_they_hold():
    assert not [path for path in SOURCES if Path(path).name in DENIED_FILES]


def test_no_two_files_of_tests_have_one_name():
    """By which pytest imports them: of two it collects none."""
    names = [Path(path).name for path in SOURCES if path.startswith("tests/")]
    names = [name for name in names if name.startswith("test_")]
    assert not [name for name in set(names) if names.count(name) > 1]


def test_public_layers_and_models_name_a_source_and_shapes():
    faults = []
    for path in PACKAGE:
        if Path(path).parts[1] not in {"layers", "models"}:
            continue
        for node in public_classes(tree(path)):
            text = ast.get_docstring(node) or ""
            if not REFERENCE.search(text):
                faults.append(f"{path} {node.name}: no reference (year, link)")
            if not SHAPE.search(text):
                faults.append(f"{path} {node.name}: no shape such as (B, T, D)")
    assert not faults, "\n".join(faults)


def test_public_functions_and_classes_have_a_docstring():
    # The three backends are one contract, written once in backends/__init__.py.
    contract = "keras_transformer/backends/"
    faults = [
        f"{path}:{node.lineno} {node.name}"
        for path in PACKAGE
        if not path.startswith(contract) or path.endswith("__init__.py")
        for node in tree(path).body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
    ]
    assert not faults, "\n".join(faults)


def test_every_module_says_what_it_is():
    faults = [path for path in PACKAGE if not ast.get_docstring(tree(path))]
    assert not faults
