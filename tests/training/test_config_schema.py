"""The JSON schema of config files: what an editor says is what a run says."""

import json
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from keras_transformer.cli.main import application
from keras_transformer.config import KINDS
from keras_transformer.errors import InputError
from keras_transformer.training.config import json_schema
from keras_transformer.training.config import load_config
from keras_transformer.training.config.run_config import PHRASEBOOK
from keras_transformer.training.config.training_section import TrainingSection

pytestmark = pytest.mark.no_backend

RECIPES = Path(__file__).parents[2] / "tutorials" / "configs"
FILES = [PHRASEBOOK, *sorted(RECIPES.glob("*.yaml"))]


@pytest.fixture(scope="module")
def validator():
    jsonschema = pytest.importorskip("jsonschema")
    jsonschema.Draft7Validator.check_schema(json_schema())
    return jsonschema.Draft7Validator(json_schema())


def fields(schema):
    """Names and schemas of all keys, at any depth."""
    if isinstance(schema, dict):
        yield from schema.get("properties", {}).items()
        schema = list(schema.values())
    if isinstance(schema, list):
        for part in schema:
            yield from fields(part)


def test_every_key_of_a_config_says_what_it_is():
    described = dict(fields(json_schema()))
    for name, field in fields(json_schema()):
        assert field.get("description"), name
    assert described.keys() >= TrainingSection.model_fields.keys()
    assert {"num_heads", "kernel_size", "beam_size", "beta_2"} <= described.keys()
    assert "gradient accumulation" in described["micro_batches"]["description"].lower()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_recipes_keep_to_the_schema(path, validator):
    validator.validate(yaml.safe_load(path.read_text(encoding="utf-8")))


@pytest.mark.parametrize("kind", KINDS)
def test_a_resolved_config_keeps_to_the_schema(kind, validator):
    config = load_config(None, [f"model.kind={kind}", "model.preset=tiny"])
    document = yaml.safe_load(config.to_yaml())
    validator.validate(document)
    assert document["model"]["kind"] == kind


@pytest.mark.parametrize(
    "document",
    [
        {},
        {"trainin": {}},
        {"training": {"step": 5}},
        {"training": {"steps": 0}},
        {"training": {"optimizer": {"name": "sgd"}}},
        {"model": {"kind": "recurrent", "num_heads": 4}},
        {"model": {"preset": "medium"}},
        {"data": {"phrasebook": "en-es"}},
    ],
    ids=str,
)
def test_what_a_run_refuses_an_editor_marks(document, validator, tmp_path):
    if document:
        document = {"data": {"phrasebook": "en-de"}, **document}
    path = tmp_path / "config.yaml"
    path.write_text(yaml.safe_dump(document))
    with pytest.raises(InputError):
        load_config(path)
    assert not validator.is_valid(document)


def test_the_command_prints_it():
    result = CliRunner().invoke(application(), ["train", "--print-schema"])
    assert result.exit_code == 0
    assert json.loads(result.stdout) == json_schema()
