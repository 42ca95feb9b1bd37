"""The documentation site: its generated pages are current, and it builds strictly."""

import importlib.util
import re
import runpy
import types
import zlib
from pathlib import Path

import pytest
import yaml

import keras_transformer
from keras_transformer import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config.run_config import OF_SERIES
from keras_transformer.training.config.series import load_runs

pytestmark = pytest.mark.no_backend

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
TRAINED = ROOT / "tests" / "fixtures" / "folders" / "transformer.format-1"


@pytest.fixture(scope="module")
def reference():
    return runpy.run_path(str(DOCS / "reference.py"))


@pytest.mark.parametrize("name", ["config_keys.md", "command_line.md"])
def test_a_generated_page_is_what_its_program_writes(reference, name):
    written = (DOCS / name).read_text(encoding="utf-8")
    assert written == reference["PAGES"][name](), "run python docs/reference.py"


def read_examples():
    """The name of each config key, with its example."""
    text = (DOCS / "config_keys.md").read_text(encoding="utf-8")
    found = re.findall(r"^### `([^`]+)`$.*?```yaml\n(.*?)^```$", text, re.M | re.S)
    return {name: yaml.safe_load(code) for name, code in found}


EXAMPLES = read_examples()


def test_every_field_of_a_config_is_on_the_page():
    assert {"training.micro_batches", "data.train[].weight", "decoding.mbr"} <= {
        *EXAMPLES
    }
    assert {f"languages.{name}" for name in Languages.model_fields} <= {*EXAMPLES}
    assert {"model.kernel_size", "training.lora.rank", "output"} <= {*EXAMPLES}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_example_of_a_key_is_a_valid_config(name, tmp_path):
    fields = EXAMPLES[name]
    if name.startswith("languages."):
        Languages.of(fields["languages"])
    elif name.startswith("model config."):
        TransformerConfig.from_dict({"vocabulary_size": 9, **fields["model config"]})
    elif name in OF_SERIES:
        path = tmp_path / "several.yaml"
        path.write_text(yaml.safe_dump(completed(fields)))
        assert load_runs(path).runs
    else:
        RunConfig.model_validate(completed(fields))


def completed(fields):
    """A run config with the keys of an example, and what those need beside them."""
    model, tokenizer = fields.get("model", {}), fields.get("tokenizer", {})
    data = fields.get("data", {})
    if "phrasebook" not in data:
        corpus = {"source": "a.en", "target": "a.de"}
        if "language" in str(data) or "temperature" in data:
            corpus |= {"source_language": "en", "target_language": "de"}
        if "span_corruption" in str(data):
            text = [{"source": "a.en"}]
            data = {"objective": "span_corruption", "train": text, **data}
        else:
            data = {"train": [corpus], "validation": corpus, **data}
    if "folder" in model or fields.get("training", {}).get("lora"):
        model = {**model, "folder": str(TRAINED)}
    if model.get("new_vocabulary"):
        tokenizer = {"vocabulary_size": 8000}
    if {"source_path", "source_vocabulary_size"} & tokenizer.keys():
        model = {"tie_embeddings": "none"}
    return {**fields, "model": model, "tokenizer": tokenizer, "data": data}


def public_names(module):
    """The full name of each public name of a module and of its public submodules."""
    for name in getattr(module, "__all__", ()):
        value = getattr(module, name)
        if isinstance(value, types.ModuleType):
            yield from public_names(value)
        elif not name.startswith("__"):
            yield f"{module.__name__}.{name}", value


@pytest.mark.slow
def test_the_site_builds_strictly_and_has_every_public_name(run_python, tmp_path):
    if not importlib.util.find_spec("myst_nb"):
        pytest.skip("could not import myst_nb")
    pytest.importorskip("furo")
    site = tmp_path / "site"
    program = [str(DOCS / "build.py"), "--output", str(site)]
    run_python(
        f"import runpy, sys\nsys.argv = {program}\n"
        "runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    assert "docs/index.html" in (site / "index.html").read_text(encoding="utf-8")
    content = (site / "objects.inv").read_bytes().split(b"\n", 4)[4]
    places = zlib.decompress(content).decode()
    found = {line.split(" ", 1)[0].rpartition(".")[2] for line in places.splitlines()}
    missing = [
        name
        for name, value in public_names(keras_transformer)
        if callable(value) and name.rpartition(".")[2] not in found
    ]
    assert not missing
    layers = (site / "docs" / "api" / "layers.html").read_text(encoding="utf-8")
    assert layers.index("<math") < layers.index("scaled_dot_product_attention</span>")
    training = (site / "docs" / "api" / "training.html").read_text(encoding="utf-8")
    assert "PydanticUndefined" not in training and "Annotated" not in training
    search = (site / "_static" / "language_data.js").read_text(encoding="utf-8")
    assert (DOCS / "search_scorer.js").read_text(encoding="utf-8") in search
    lesson = site / "tutorials" / "notebooks" / "01_attention_from_the_formula.html"
    assert "largest difference between layer and loop" in lesson.read_text("utf-8")
