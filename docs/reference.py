"""Generated pages of the documentation: all config keys, and the command line.

    python docs/reference.py     # writes docs/config_keys.md and docs/command_line.md

Keys, types, defaults, bounds and sentences are those of the fields that validate a
config; commands and flags are those of the parser. A test fails where a page is not
what this program writes.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).resolve().parent
if __name__ == "__main__":
    sys.path.insert(0, str(FOLDER.parent))  # the pages of this clone

import typer
import yaml

from keras_transformer.cli.main import application
from keras_transformer.config import TransformerConfig
from keras_transformer.config.languages import Languages
from keras_transformer.training.config import json_schema
from keras_transformer.training.config.run_config import OF_SERIES

WRITTEN = "<!-- Written by docs/reference.py; do not edit. -->"

#: Examples of keys for which their type has none: of any section, or `section.key`.
EXAMPLES: dict[str, Any] = {
    "probability": 0.1,
    "data.packing": 128,
    "model.folder": "runs/my/averaged",
    "model.position": "rotary",
    "hidden_dim": 256,
    "num_encoder_layers": 12,
    "num_decoder_layers": 2,
    "intermediate_dim": 1024,
    "num_heads": 4,
    "head_dim": 64,
    "value_dim": 64,
    "num_key_value_heads": 2,
    "decoder_intermediate_dim": 1024,
    "decoder_num_heads": 4,
    "decoder_num_key_value_heads": 2,
    "decoder_head_dim": 64,
    "decoder_value_dim": 64,
    "dropout": 0.3,
    "attention_dropout": 0.1,
    "activation_dropout": 0.1,
    "rotary_base": 500000.0,
    "num_relative_buckets": 64,
    "max_relative_distance": 256,
    "position_offset": 2,
    "attention_window": 16,
    "layer_norm_epsilon": 1.0e-05,
    "max_sequence_length": 512,
    "kernel_size": 5,
    "max_dilation": 16,
    "vocabulary_size": 8000,
    "source_vocabulary_size": 8000,
    "target_vocabulary_size": 16000,
    "pad_id": 0,
    "start_id": 1,
    "end_id": 2,
    "path": "runs/my/averaged/tokenizer.model",
    "tokenizer.kind": "my_tokenizer.LowerCased",
    "source_path": "source.model",
    "target_path": "target.model",
    "shared": False,
    "character_coverage": 0.9995,
    "user_defined_symbols": ["<sep>", "<2de>"],
    "data.train": [{"source": "train.en", "target": "train.de"}],
    "data.validation": {"source": "valid.en", "target": "valid.de"},
    "data.test": {"source": "test.en", "target": "test.de"},
    "batch_tokens": 4096,
    "batch_source_tokens": 8192,
    "data.max_length": 256,
    "data.temperature": 5.0,
    "bpe_dropout": 0.1,
    "upper": 0.05,
    "title": 0.05,
    "lower": 0.05,
    "typos": 0.02,
    "cache": "~/encoded",
    "workers": 4,
    "source": "train.en",
    "target": ["train.de"],
    "tsv": "pairs.tsv",
    "csv": "pairs.csv",
    "jsonl": "pairs.jsonl",
    "parquet": "pairs.parquet",
    "tmx": "memory.tmx",
    "columns": ["en", "de"],
    "source_language": "en",
    "target_language": "de",
    "about.name": "en-de",
    "training_text": "12,000 sentences of our manuals",
    "weight": 2.0,
    "tag": "<bt>",
    "prefix": "translate English to German: ",
    "span_corruption.rate": 0.3,
    "mean_length": 4.0,
    "manifest": "runs/distilled",
    "filters.min_length": 2,
    "max_ratio": 2.5,
    "steps": 20000,
    "warmup_steps": 1000,
    "learning_rate": 0.001,
    "label_smoothing": 0.05,
    "r_drop": 5.0,
    "distillation.teacher": "runs/teacher/averaged",
    "distillation.weight": 0.7,
    "distillation.temperature": 2.0,
    "clip_norm": 1.0,
    "micro_batches": 4,
    "freeze": ["embeddings", "encoder"],
    "beta_1": 0.9,
    "beta_2": 0.999,
    "epsilon": 1.0e-08,
    "weight_decay": 0.01,
    "rank": 16,
    "alpha": 32.0,
    "kernels": ["query", "value"],
    "validate_every": 500,
    "checkpoint_every": 500,
    "log_every": 100,
    "callbacks": ["my_callbacks:make"],
    "training.loss": "my_losses:focal",
    "keep_checkpoints": 5,
    "keep_best": 3,
    "training.patience": 5,
    "average_last": 5,
    "average_best": 3,
    "ema": 0.999,
    "devices": 2,
    "training.seed": 7,
    "evaluation.metrics": ["my_metrics:comet"],
    "beam_size": 6,
    "top_beams": 2,
    "length_penalty": 1.0,
    "coverage_penalty": 0.2,
    "decoding.patience": 1.0,
    "decoding.min_length": 5,
    "decoding.max_length": 200,
    "no_repeat_ngram_size": 3,
    "repetition_penalty": 1.2,
    "suppressed_tokens": ["<sep>"],
    "forced_start": "<2de>",
    "num_beam_groups": 2,
    "diversity_penalty": 0.5,
    "decoding.temperature": 0.7,
    "top_k": 40,
    "top_p": 0.9,
    "decoding.seed": 7,
    "mbr_candidates": 16,
    "max_source_length": 256,
    "tokenize": "none",
    "output": "runs/another",
    "seeds": 5,
    "baseline": "runs/another",
    "stages": [
        {"name": "base"},
        {"name": "tuned", "training": {"learning_rate": 0.0005}},
    ],
    "languages.codes": {"en": None, "de": 21, "fr": 22},
    "languages.target_codes": {"de": 31, "fr": 32},
    "languages.sources": ["en"],
    "languages.targets": ["de", "fr"],
    "languages.source": "en",
    "languages.target": "de",
    "languages.source_layout": ["target", "text", "end"],
    "languages.target_layout": ["target", "text", "end"],
    "languages.prefixes": {"*": {"de": "<2de> "}},
}
#: Keys that an example needs beside its own.
COMPANIONS: dict[str, dict[str, Any]] = {
    "model.new_vocabulary": {"folder": "runs/my/averaged"},
    "source_vocabulary_size": {"target_vocabulary_size": 16000},
    "target_vocabulary_size": {"source_vocabulary_size": 8000},
    "source_path": {"target_path": "target.model"},
    "target_path": {"source_path": "source.model"},
    "shared": {"source_path": "source.model", "target_path": "target.model"},
    "source": {"target": "train.de"},
    "target": {"source": ["train.en"]},
    "columns": {"jsonl": "pairs.jsonl"},
    "tmx": {"columns": ["en", "de"]},
    "model config.source_vocabulary_size": {
        "target_vocabulary_size": 16000,
        "tie_embeddings": "target",
    },
    "model config.target_vocabulary_size": {
        "source_vocabulary_size": 8000,
        "tie_embeddings": "target",
    },
    "source_language": {
        "source": "train.de",
        "target": "train.en",
        "target_language": "en",
    },
    "target_language": {
        "source": "train.en",
        "target": "train.de",
        "source_language": "en",
    },
    "about.source_language": {"target_language": "de"},
    "about.target_language": {"source_language": "en"},
    "weight": {"source": "train.en", "target": "train.de"},
    "tag": {"source": "translated.en", "target": "monolingual.de"},
    "prefix": {"source": "train.en", "target": "train.de"},
    "objective": {"train": [{"source": "monolingual.en"}]},
    "simcut.weight": {},
    "baseline": {"seeds": 5},
    "distillation.weight": {"teacher": "runs/teacher/averaged"},
    "distillation.temperature": {"teacher": "runs/teacher/averaged"},
    "weight_decay": {"name": "adamw"},
    "distribution": {},
    "devices": {"distribution": "mirrored"},
    "mbr_candidates": {"mbr": "chrf", "beam_size": 16},
    "num_beam_groups": {"diversity_penalty": 0.5},
    "diversity_penalty": {"num_beam_groups": 2},
    "decoding.temperature": {"sampling": True},
    "top_k": {"sampling": True},
    "top_p": {"sampling": True},
    "decoding.seed": {"sampling": True},
    "decoder_head_dim": {"decoder_num_heads": 4},
    "decoder_value_dim": {"decoder_num_heads": 4},
    "decoder_num_key_value_heads": {"decoder_num_heads": 4},
    "max_dilation": {"kind": "convolutional"},
    "kernel_size": {"kind": "convolutional"},
    "num_relative_buckets": {"position": "relative_buckets"},
    "max_relative_distance": {"position": "relative_buckets"},
    "rotary_base": {"position": "rotary"},
    "languages.sources": {"codes": {"en": None, "de": 21, "fr": 22}},
    "languages.targets": {"codes": {"en": None, "de": 21, "fr": 22}},
    "languages.source": {"codes": {"en": None, "de": 21, "fr": 22}},
    "languages.target": {"codes": {"en": None, "de": 21, "fr": 22}},
    "languages.target_codes": {"codes": {"en": None, "de": 21, "fr": 22}},
    "languages.source_layout": {"codes": {"de": 21, "fr": 22}},
    "languages.target_layout": {"codes": {"de": 21, "fr": 22}},
    "languages.decoder_start": {"codes": {"de": 21, "fr": 22}},
    "languages.prefixes": {"codes": {"en": None, "de": 21, "fr": 22}},
}
_TYPES = {
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "string": "text",
    "object": "keys and values",
    "null": "null",
}
#: Keys of the model's config that a run config leaves to the tokenizer.
_OF_TOKENIZER = (
    *("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size"),
    *("pad_id", "start_id", "end_id"),
)

INTRODUCTION = """\
# Config keys

All keys of a run config, the file that `keras-transformer train` reads. Each entry has
the type, the default, the bounds, what the key does, and an example. Complete configs
are in [Recipes](../tutorials/configs/README.md).

* A key is written below its section. `training.micro_batches` is the key
  `micro_batches` of the section `training`. On the command line it is
  `--set training.micro_batches=4`.
* A key that may be left out has a default. `null` is the same as leaving it out.
* Unknown keys are refused, with the nearest known one.
* The same names are arguments in Python:
  `kt.training.TrainingSection(micro_batches=4)`.
* `keras-transformer train --print-schema` prints the JSON schema, by which an editor
  completes and checks the keys.
* Letters: D is `hidden_dim` (the paper's d_model), F `intermediate_dim` (d_ff), H
  `num_heads` (h), K `head_dim` (d_k), V the vocabulary size.

| section | what it decides |
|---|---|
| [`conventions`](#section-conventions) | whose defaults the run has |
| [`model`](#section-model) | the architecture, or the trained model to fine-tune |
| [`tokenizer`](#section-tokenizer) | the subword vocabulary |
| [`data`](#section-data) | the texts, and the batches |
| [`training`](#section-training) | steps, learning rate, checkpoints, devices |
| [`decoding`](#section-decoding) | the search |
| [`evaluation`](#section-evaluation) | BLEU and chrF |
| [`about`](#section-about) | what the model folder tells of its model |
| [`output`](#section-output) | the run folder |
| [`seeds`, `stages`, `baseline`](#section-seeds) | several runs |
| [`languages`](#section-languages) | the languages of a multilingual model folder |
"""


def alternatives(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """The forms that a value may have, null left out."""
    forms = schema.get("anyOf", [schema])
    return [form for form in forms if form.get("type") != "null"]


def value_type(schema: dict[str, Any]) -> str:
    """The type of a value and its bounds, in words."""
    return " or ".join(dict.fromkeys(map(_form, alternatives(schema))))


def _form(schema: dict[str, Any]) -> str:
    if "enum" in schema:
        return ", ".join(f"`{_scalar(value)}`" for value in schema["enum"])
    if "const" in schema:
        return f"`{_scalar(schema['const'])}`"
    if schema.get("type") == "array":
        item = value_type(schema.get("items", {}))
        return f"list of {item}" if item else "list"
    if schema.get("format") == "path":
        return "path"
    name = _TYPES.get(schema.get("type", ""), "")
    return " ".join(filter(None, [name, _bounds(schema)]))


def _bounds(schema: dict[str, Any]) -> str:
    words = {
        "minimum": "at least",
        "exclusiveMinimum": "above",
        "maximum": "at most",
        "exclusiveMaximum": "below",
    }
    bounds = [f"{words[key]} {schema[key]:g}" for key in words if key in schema]
    bounds = [bound for bound in bounds if not bound.endswith("e+09")]
    return " and ".join(bounds)


def _scalar(value: Any) -> str:
    text = yaml.safe_dump(value, default_flow_style=True, allow_unicode=True, width=999)
    return text.removesuffix("\n").removesuffix("\n...")


def example(section: str, key: str, schema: dict[str, Any]) -> dict[str, Any]:
    """The keys of a section in an example of one of them."""
    if f"{section}.{key}" in EXAMPLES:
        value = EXAMPLES[f"{section}.{key}"]
    elif key in EXAMPLES:
        value = EXAMPLES[key]
    else:
        value = _another(schema)
    own = COMPANIONS.get(f"{section}.{key}", COMPANIONS.get(key, {}))
    if section == "model" and key not in ("kind", "folder", "new_vocabulary"):
        own = {name: own[name] for name in own if name != "folder"}
    return {key: value, **own}


def _another(schema: dict[str, Any]) -> Any:
    """A value that is not the default, where the type lists them."""
    for form in alternatives(schema):
        if form.get("type") == "boolean":
            return not schema.get("default", False)
        for value in reversed(form.get("enum", [form.get("const")])):
            if value is not None and value != schema.get("default"):
                return value
    raise KeyError(f"no example of {schema}; add one to EXAMPLES")


def written(path: tuple[str, ...], fields: Any) -> str:
    """YAML of the fields below the keys of `path`; `name[]` is a list."""
    for name in reversed(path):
        fields = {name.removesuffix("[]"): [fields] if name.endswith("[]") else fields}
    text = yaml.safe_dump(
        fields, sort_keys=False, allow_unicode=True, default_flow_style=None, width=80
    )
    return text.removesuffix("\n")


def entry(path: tuple[str, ...], key: str, schema: dict[str, Any]) -> str:
    """What the page says of one key."""
    section = path[-1].removesuffix("[]") if path else ""
    name = ".".join([*path, key])
    facts = [value_type(schema)]
    if "default" in schema and schema["default"] is not None:
        default = schema["default"]
        if not isinstance(default, dict):  # a section
            facts.append(f"default `{_scalar(default)}`")
    fields = example(section, key, schema)
    sentence = markdown(schema.get("description", ""))
    code = written(path, fields)
    return (
        f"### `{name}`\n\n*{'; '.join(filter(None, facts)) or 'section'}*\n\n"
        f"{sentence}\n\n```yaml\n{code}\n```\n"
    )


def markdown(sentence: str) -> str:
    """A sentence of a docstring, as Markdown has it."""
    parts = re.split(r"(`[^`]*`)", sentence)
    for i in range(0, len(parts), 2):
        parts[i] = re.sub(r"([*<$\[])", r"\\\1", parts[i])
    return "".join(parts)


def entries(path: tuple[str, ...], schema: dict[str, Any]) -> Iterator[str]:
    """The entries of a section's keys, those of the sections below it left out."""
    for key, field in schema["properties"].items():
        if key in _BELOW:
            continue
        yield entry(path, key, field)


#: Keys that are sections of their own.
_BELOW = {"optimizer", "lora", "simcut", "distillation", "filters", "augment"} | {
    "span_corruption"
}


def model_fields() -> dict[str, dict[str, Any]]:
    """The keys of the section `model`, with the kinds that have each."""
    kinds = [
        kind
        for kind in json_schema()["properties"]["model"]["anyOf"]
        if "const" in kind["properties"]["kind"]  # not a class of one's own
    ]
    names = [kind["properties"]["kind"]["const"] for kind in kinds]
    found: dict[str, dict[str, Any]] = {}
    for name, kind in zip(names, kinds, strict=True):
        for key, schema in kind["properties"].items():
            field = found.setdefault(key, {**schema, "kinds": []})
            field["kinds"].append(name)
    found["kind"] = {
        "enum": names,
        "default": names[0],
        "description": "Kind of model. Each kind has sizes and options of its own; "
        "`module.Class` is a class of your own.",
        "kinds": names,
    }
    presets: dict[str, None] = {}
    for kind in kinds:
        presets |= dict.fromkeys(kind["properties"]["preset"]["enum"])
    found["preset"] = {**found["preset"], "enum": list(presets), "default": "base"}
    return found


def config_keys() -> str:
    """The page of all config keys."""
    schema = json_schema()
    definitions = schema["$defs"]
    parts = [WRITTEN, INTRODUCTION, "(section-conventions)=\n## `conventions`\n"]
    parts.append(entry((), "conventions", schema["properties"]["conventions"]))
    parts.append("[Conventions](conventions.md) has the differences in a table.\n")
    parts.append("(section-model)=\n## Section `model`\n")
    parts.append(
        "Without `folder` the defaults are those of the paper's `base`. "
        "Vocabulary sizes and special ids are the tokenizer's.\n"
    )
    kinds = model_fields()["kind"]["kinds"]
    for key, field in model_fields().items():
        text = entry(("model",), key, field)
        if field["kinds"] != kinds:
            text = text.replace("*\n\n", f"; kind {', '.join(field['kinds'])}*\n\n", 1)
        parts.append(text)
    sections = [
        (("tokenizer",), "TokenizerSection", "Section `tokenizer`"),
        (("data",), "DataSection", "Section `data`"),
        (("data", "train[]"), "TrainingCorpus", "A corpus of `data.train`"),
        (("data", "filters"), "FilterSection", "Section `data.filters`"),
        (("data", "augment"), "AugmentSection", "Section `data.augment`"),
        (
            ("data", "span_corruption"),
            "SpanCorruptionSection",
            "Section `data.span_corruption`",
        ),
        (("training",), "TrainingSection", "Section `training`"),
        (("training", "optimizer"), "OptimizerSection", "Section `training.optimizer`"),
        (("training", "lora"), "LoraSection", "Section `training.lora`"),
        (("training", "simcut"), "SimCutSection", "Section `training.simcut`"),
        (
            ("training", "distillation"),
            "DistillationSection",
            "Section `training.distillation`",
        ),
        (("decoding",), "DecodingOptions", "Section `decoding`"),
        (("evaluation",), "EvaluationSection", "Section `evaluation`"),
        (("about",), "About", "Section `about`"),
    ]
    for path, name, title in sections:
        label = "-".join(path).replace("[]", "")
        parts.append(f"(section-{label})=\n## {title}\n")
        if name == "TrainingCorpus":
            parts.append(
                "`data.validation` and `data.test` have the same keys, without "
                "`weight`. Paths are relative to the config file.\n"
            )
        if name == "DecodingOptions":
            parts.append(
                "The same options are flags of `translate`, `evaluate` and `export`, "
                "and arguments of `Translator.translate`.\n"
            )
        parts += entries(path, definitions[name])
    parts.append("(section-output)=\n## `output`\n")
    parts.append(entry((), "output", schema["properties"]["output"]))
    parts.append(
        "(section-seeds)=\n## Keys for several runs\n\n"
        "See [Seeds and stages](stages.md).\n"
    )
    for key in OF_SERIES:
        parts.append(entry((), key, schema["properties"][key]))
    parts.append(
        "(section-languages)=\n## Section `languages` of a model folder\n\n"
        "In `config.json` of a multilingual model, not in a run config. See "
        "[Several languages](languages.md).\n"
    )
    languages = Languages.model_json_schema()
    parts += entries(("languages",), languages)
    parts.append(
        "## Keys of a model's config alone\n\n"
        "In `config.json` of a model folder and in Python, such as "
        "`kt.TransformerConfig(vocabulary_size=8000)`. The other fields are those of "
        "the section `model`.\n"
    )
    fields = TransformerConfig.model_json_schema()["properties"]
    for key in _OF_TOKENIZER:
        parts.append(entry(("model config",), key, fields[key]))
    return "\n".join(parts)


def command_line() -> str:
    """The page of all commands and their flags."""
    program = typer.main.get_command(application())
    context = typer.Context(program, info_name="keras-transformer")
    parts = [
        WRITTEN,
        "# Command line\n",
        "Each command prints the same with `--help` or `-h`. `python -m "
        "keras_transformer` is the same program.\n",
        "* `KERAS_BACKEND` chooses the backend. `TF_CPP_MIN_LOG_LEVEL=0` shows "
        "TensorFlow's own log, which is hidden otherwise but for errors.\n"
        "* `keras-transformer --install-completion` makes your shell complete commands "
        "and flags with the tab key, in terminals that are opened later; "
        "`--show-completion` prints what it would install.\n"
        "* `keras-transformer train --keys accumulation` lists the config keys that go "
        "with a word, `train --keys` all of them.\n",
        "| exit code | meaning |\n|---|---|\n| 0 | success |\n"
        "| 2 | bad input or arguments |\n| 1 | internal error |\n"
        "| 130 | ended by ctrl-C |\n| 143 | ended by SIGTERM |\n",
    ]
    for name, command in program.commands.items():
        child = typer.Context(command, info_name=name, parent=context)
        usage = command.get_usage(child).removeprefix("Usage: ")
        parts.append(f"## `{name}`\n")
        parts.append(f"```text\n{' '.join(usage.split())}\n```\n")
        parts.append(_paragraphs(command.help or ""))
        rows = list(filter(None, (_row(child, p) for p in command.params)))
        if rows:
            table = ["| argument or flag | value | meaning |", "|---|---|---|", *rows]
            parts.append("\n".join(table) + "\n")
    return "\n".join(parts)


def _paragraphs(text: str) -> str:
    paragraphs = re.split(r"\n\s*\n", text.replace("\b", ""))
    return "\n\n".join(markdown(" ".join(p.split())) for p in paragraphs) + "\n"


def _row(context: Any, parameter: Any) -> str | None:
    record = parameter.get_help_record(context)
    if record is None or parameter.name == "help":
        return None
    names, text = (" ".join(part.split()) for part in record)
    flag, _, value = names.partition(" ")
    if parameter.param_type_name == "argument":
        value = "required" if parameter.required else ""
        flag, text = flag.strip("[]"), text.removesuffix("[required]")
    elif value.startswith("/"):  # a flag and its opposite
        flag, value = names, ""
    elif value:
        value = f"`{value.strip()}`"
    cells = [f"`{flag}`", value, markdown(text.strip())]
    return f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in cells)} |"


#: File -> the function that writes it.
PAGES = {"config_keys.md": config_keys, "command_line.md": command_line}


def write() -> None:
    """Writes the generated pages beside this file, where they are not there already."""
    for name, page in PAGES.items():
        path, text = FOLDER / name, page()
        if not path.exists() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    write()
