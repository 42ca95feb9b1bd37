"""Tests that what is installed is pinned: packages by hash, actions by commit."""

import re
import tomllib
from pathlib import Path

import pytest

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[1]
PIN = re.compile(r"^([a-z0-9-]+)==(\S+)", re.MULTILINE)


def name_of(requirement):
    return re.match(r"[\w-]+", requirement)[0].lower().replace("_", "-")


@pytest.fixture(scope="module")
def project():
    return tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


@pytest.fixture(scope="module")
def constraints():
    return dict(PIN.findall((ROOT / "constraints.txt").read_text("utf-8")))


@pytest.mark.parametrize(
    "name, extras",
    [
        (
            "test",
            ("tensorflow", "jax", "export", "serve", "ray", "plot", "interop", "test"),
        ),
        ("no-tensorflow", ("jax", "plot", "test")),
    ],
)
def test_each_dependency_of_the_tests_is_pinned_with_a_hash(
    name, extras, project, constraints
):
    text = (ROOT / "requirements" / f"{name}.txt").read_text("utf-8")
    pins = dict(PIN.findall(text))
    assert "torch" not in pins  # its build for processors has a hash of its own
    entries = [entry for entry in re.split(r"\n(?=\S)", text) if entry[0] != "#"]
    assert len(entries) == len(pins)
    assert all("--hash=sha256:" in entry for entry in entries)
    known = {package: pins[package] for package in pins.keys() & constraints.keys()}
    assert known == {package: constraints[package] for package in known}
    wanted = list(project["dependencies"])
    for extra in extras:
        wanted += project["optional-dependencies"][extra]
    assert {name_of(requirement) for requirement in wanted} <= pins.keys()


def test_each_action_of_a_workflow_is_pinned_by_its_commit():
    uses = []
    for path in (ROOT / ".github" / "workflows").glob("*.yml"):
        uses += re.findall(r"uses: *(\S+)", path.read_text("utf-8"))
    assert uses
    assert all(re.fullmatch(r"[\w/-]+@[0-9a-f]{40}", action) for action in uses)
