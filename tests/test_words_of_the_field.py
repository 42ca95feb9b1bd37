"""The words that one would search for stand where they lead to the right place."""

import ast
import importlib
import inspect
import re
from pathlib import Path

import pytest

import keras_transformer

pytestmark = pytest.mark.no_backend

PACKAGE = Path(keras_transformer.__file__).parent
#: Term -> the module whose first line has it, and the config field whose sentence does.
TERMS = {
    "gradient accumulation": (
        "models/fused_training.py",
        "training.config.training_section.TrainingSection.micro_batches",
    ),
    "KV cache": ("models/translation_model.py", None),
    "mixed precision": (
        "training/model.py",
        "training.config.training_section.TrainingSection.precision",
    ),
    "checkpoint averaging": (
        "training/averaging.py",
        "training.config.training_section.TrainingSection.average_last",
    ),
    "fine-tuning": (
        "training/config/model_section.py",
        "training.config.RunConfig.model",
    ),
    "learning rate schedule": (
        "training/schedules.py",
        "training.config.training_section.TrainingSection.learning_rate",
    ),
    "dynamic batching": ("serving/batching.py", "serving.limits.Limits.batch_size"),
    "beam search": (
        "decoding/beam_search.py",
        "config.decoding.DecodingOptions.beam_size",
    ),
    "label smoothing": (
        "losses/label_smoothed_cross_entropy.py",
        "training.config.training_section.TrainingSection.label_smoothing",
    ),
    "moving average": (
        "training/moving_average.py",
        "training.config.training_section.TrainingSection.ema",
    ),
    "length penalty": (
        "decoding/length_penalty.py",
        "config.decoding.DecodingOptions.length_penalty",
    ),
}
CLAUSE = re.compile(r"(What|How|Where|Which|Whether|When|Who|Why)\b")


def first_line(path):
    docstring = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))
    return (docstring or "").partition("\n")[0]


@pytest.mark.parametrize("term", TERMS)
def test_a_term_leads_to_its_module_and_its_config_field(term):
    module, field = TERMS[term]
    assert term.casefold() in first_line(PACKAGE / module).casefold()
    if field:
        name, owner, argument = field.rsplit(".", 2)
        owner = getattr(importlib.import_module(f"keras_transformer.{name}"), owner)
        (sentence,) = re.findall(
            rf"^    {argument}: (.*?)(?=^    \S|^\S|\Z)",
            inspect.getdoc(owner),
            flags=re.MULTILINE | re.DOTALL,
        )
        assert term.casefold() in " ".join(sentence.split()).casefold()


@pytest.mark.parametrize(
    "path", sorted(PACKAGE.rglob("*.py")), ids=lambda path: path.name
)
def test_a_module_docstring_begins_with_what_the_module_is(path):
    assert not CLAUSE.match(first_line(path))
