"""docs/private_interfaces.md lists the private names of other libraries in use."""

import ast
import re
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "keras_transformer"
TABLE = (ROOT / "docs" / "private_interfaces.md").read_text(encoding="utf-8")
ROWS = re.findall(
    r"^\| [\w.]+ \| `(\w+)` \| `([\w/.]+)` \| .+ \| `([\w/.]+)` \|$",
    TABLE,
    re.MULTILINE,
)
#: Documented by Python, or fields of a named tuple.
PUBLIC = {"_exit", "_replace", "_asdict", "_fields"}
PRIVATE_MODULE = re.compile(r"\.src\b|\._|^_(?!_|typeshed)|^tensorflow\.python\b")


FOREIGN = {"jax", "keras", "tensor", "tf", "torch"}
#: Functions that take a name as their second argument.
BY_NAME = {"getattr", "hasattr", "replaced"}


def trees():
    for path in sorted(FOLDER.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        yield str(path.relative_to(FOLDER)), tree


def defined_here():
    """Names that the package itself gives to anything."""
    names = set()
    for _, tree in trees():
        for node in ast.walk(tree):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store):
                names.add(node.attr)
            elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
                names.add(getattr(node.slice, "value", None))  # vars(model)["name"]
            elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
                names.add(node.target.id)
            elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
                names.add(node.id)
    return names


def is_private(name):
    return name.startswith("_") and not name.startswith("__") and name not in PUBLIC


def used(tree, own):
    """Private names of others in a file: attributes, `getattr`, names and imports."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr):
            owner = ast.unparse(node.value)
            foreign = owner == "super()" or owner.partition(".")[0] in FOREIGN
            if foreign or node.attr not in own:
                yield node.attr
        elif isinstance(node, ast.Call):
            if ast.unparse(node.func).rpartition(".")[2] in BY_NAME:
                name = getattr(node.args[1], "value", None)
                if isinstance(name, str) and is_private(name) and name not in own:
                    yield name
        elif isinstance(node, ast.Compare):  # in a `__setattr__`
            values = (getattr(other, "value", None) for other in node.comparators)
            names = (value for value in values if isinstance(value, str))
            yield from (name for name in names if is_private(name) and name not in own)
        elif isinstance(node, ast.ImportFrom) and PRIVATE_MODULE.search(
            node.module or ""
        ):
            yield from (alias.name for alias in node.names)


def test_each_private_name_in_use_is_listed_with_its_file():
    own = defined_here()
    found = {(name, path) for path, tree in trees() for name in used(tree, own)}
    listed = {(name, path) for name, path, _ in ROWS if not is_test(path)}
    assert found == listed


def is_test(path):
    return path.startswith("tests/")


def test_each_private_import_of_tests_is_listed_with_its_file():
    """Those that the package imports too need no second row."""
    known = {name for name, path, _ in ROWS if not is_test(path)}
    found = set()
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and ".src" in (node.module or ""):
                names = {alias.name for alias in node.names} - known
                found |= {(name, str(path.relative_to(ROOT))) for name in names}
    assert found == {(name, path) for name, path, _ in ROWS if is_test(path)}


def test_each_row_names_a_test_that_exists():
    assert len(ROWS) == TABLE.count("\n| ") - 1  # all but the heading
    for _, path, test in ROWS:
        assert ((ROOT if is_test(path) else FOLDER) / path).is_file()
        assert (ROOT / test).is_file(), test
