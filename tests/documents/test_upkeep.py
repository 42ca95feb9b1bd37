"""The project's files about itself: citation, templates, image, releases."""

import re
import tomllib
from pathlib import Path

import pytest
import yaml

import keras_transformer

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_version_is_the_same_everywhere():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    versions = {PROJECT["version"], citation["version"], keras_transformer.__version__}
    assert len(versions) == 1
    assert citation["authors"] == [{"name": "the keras-transformer authors"}]
    assert PROJECT["version"] in (ROOT / "CHANGELOG.md").read_text("utf-8")


def test_the_image_has_what_it_copies_and_knows_each_backend():
    text = (ROOT / "Dockerfile").read_text("utf-8")
    allowed = (ROOT / ".dockerignore").read_text("utf-8").split()
    (files,) = re.findall(r"^COPY (.+) \./$", text, re.M)
    for name in (*files.split(), "keras_transformer"):
        assert (ROOT / name).exists() and f"!{name}" in allowed
    backends = set(re.findall(r"^ +(\w+)-[01]\)", text, re.M))
    assert (
        backends
        == {"tensorflow", "jax", "torch"}
        <= {*PROJECT["optional-dependencies"]}
    )


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")))
def test_workflows_and_templates_can_be_read(path):
    assert yaml.safe_load(path.read_text("utf-8"))


def test_the_site_is_built_and_published_by_its_workflow():
    text = (ROOT / ".github/workflows/docs.yml").read_text("utf-8")
    jobs = yaml.safe_load(text)["jobs"]
    commands = [step.get("run") for step in jobs["build"]["steps"]]
    assert "python docs/build.py" in commands
    assert jobs["publish"]["if"] == "github.ref == 'refs/heads/main'"
