"""Run configs: what a training run is made of, read strictly from YAML.

`load_config` reads a YAML file; `RunConfig` is the same as an object, for Python.
"""

from __future__ import annotations

import dataclasses
import os
import re
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pydantic

from keras_transformer.config import TranslationConfig
from keras_transformer.config.about import About
from keras_transformer.config.decoding import DecodingOptions
from keras_transformer.config.faults import first_fault
from keras_transformer.config.faults import shown
from keras_transformer.data.columns import FORMATS
from keras_transformer.decoding_options import OPTIONS
from keras_transformer.errors import InputError
from keras_transformer.training.config import model_section
from keras_transformer.training.config import strict_yaml
from keras_transformer.training.config.conventions import ConventionsName
from keras_transformer.training.config.conventions import conventions_of
from keras_transformer.training.config.conventions import filled
from keras_transformer.training.config.conventions import filled_training
from keras_transformer.training.config.data_section import VOCABULARY_SIZE
from keras_transformer.training.config.data_section import DataSection
from keras_transformer.training.config.data_section import TokenizerSection
from keras_transformer.training.config.section import Section
from keras_transformer.training.config.section import expanded
from keras_transformer.training.config.series_keys import SeriesKeys
from keras_transformer.training.config.training_section import EvaluationSection
from keras_transformer.training.config.training_section import TrainingSection

#: Keys of a config that is for several runs, see `series.py`.
OF_SERIES = ("seeds", "stages", "baseline")
PHRASEBOOK = Path(__file__).with_name("phrasebook.yaml")

_SECTIONS = ("tokenizer", "data", "training", "decoding", "evaluation", "about")
#: Options of what validation, which is greedy, does not do.
_SEARCHES = "|".join(name for name, o in OPTIONS.items() if o.search != "every")
_ELSEWHERE = (
    r"output|data\.cache|training\.distillation\.teacher"
    r"|tokenizer\.(source_|target_)?path"
)
#: Where things lie, which are known by their content, in the run folder.
_PLACES = re.compile(rf"{_ELSEWHERE}|model\.folder")
#: That but for `model.folder`, how things are encoded, how a trained model searches.
_NO_EFFECT_ON_TRAINING = re.compile(
    rf"{_ELSEWHERE}|data\.workers|about\..*|decoding\.({_SEARCHES})"
)
#: Texts are known by their content, too, but not how they are read.
_TEXTS = re.compile(
    rf"data\.(train|validation|test)\b.*\.(source|target|manifest|{'|'.join(FORMATS)})"
)
#: How a run is watched, what it keeps and delivers, and what fits into memory; no step
#: depends on it.
_BOOKKEEPING = re.compile(
    r"training\.(keep_\w+|\w+_every|patience|average_\w+|remat|callbacks)"
    r"|evaluation\..*|decoding\.long_lines"
)


class RunConfig(Section):
    """All that decides a training run; the defaults are the paper's.

    Raises:
        pydantic.ValidationError: a `ValueError`; `load_config` raises `InputError`.

    Example:

    >>> from keras_transformer.training.config import RunConfig
    >>> config = RunConfig(model={"preset": "tiny"}, data={"phrasebook": "en-de"})
    >>> config.training.steps, config.translation_config(8000, 8000).hidden_dim
    (100000, 128)
    """

    conventions: ConventionsName | None = None
    """Conventions of a toolkit: its norm order, dropouts, positions, warm-up, Adam and
    search in place of the paper's, where neither a key nor a preset that was named
    says otherwise. They are written out into the keys of `model`, `training` and
    `decoding`, so the run folder has those, and this is then None."""
    model: dict[str, Any]
    """Model: `kind` (`"transformer"` if left out, `"recurrent"`, `"convolutional"`, or
    a class of your own as `"module.Class"`), `preset` (`"base"` if left out) and any
    field of the kind's config but vocabulary sizes and special ids, which are the
    tokenizer's; or, for fine-tuning, `folder`: a trained model folder with its own
    tokenizers, special ids and decoding options, or with `new_vocabulary: true` those
    of `tokenizer`. Kept with every field filled in."""
    tokenizer: TokenizerSection
    """Tokenizers, trained or read."""
    data: DataSection
    """Data: the texts and how they are batched; must be given."""
    training: TrainingSection
    """Training: how the weights are learned."""
    decoding: DecodingOptions
    """Decoding options of the validation and of the trained model."""
    evaluation: EvaluationSection
    """Evaluation: how translations are scored."""
    about: About
    """About the model: what its folder tells of it."""
    output: Path
    """Output: the run folder; if left out `runs/<name of the config file>`, or
    `runs/phrasebook-en-de`, in the working directory."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any, info: pydantic.ValidationInfo) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        for section in _SECTIONS:
            given.setdefault(section, {})
        folder = Path((info.context or {}).get("folder", ""))
        begun = model_section.is_resolved(given.get("model"))
        if (info.context or {}).get("imports"):
            model_section.import_kind(given.get("model"))
            model_section.import_kind(given.get("tokenizer"), "tokenizer")
        name = given.pop("conventions", None)
        toolkit = conventions_of(name, given.get("model", {}))
        given["model"] = model_section.resolve(
            given.get("model", {}), folder, toolkit.model
        )
        if name is not None:
            width = given["model"]["hidden_dim"]
            given["training"] = filled_training(given["training"], toolkit, width)
            given["decoding"] = filled(given["decoding"], toolkit.decoding)
        if initial := given["model"].get("folder"):
            initial, new = Path(initial), "new_vocabulary" in given["model"]
            if not new:
                given["tokenizer"] = model_section.trained_tokenizer(
                    initial, given["tokenizer"]
                )
            if not begun:
                given["decoding"] = model_section.trained_decoding(
                    initial, given["decoding"], new
                )
        data = given["data"]
        phrasebook = data.get("phrasebook") if isinstance(data, Mapping) else None
        name = (info.context or {}).get("name") or (
            f"phrasebook-{phrasebook}" if phrasebook else given["model"]["kind"]
        )
        output = given.setdefault("output", f"runs/{name}")
        if not isinstance(output, str | Path) or not str(output):
            raise ValueError(f"output: expected a path, got {output!r}")
        given["output"] = expanded(output)
        return given

    @pydantic.model_validator(mode="after")
    def _check(self) -> RunConfig:
        model = self.model
        # A trained model may have two tokenizer files of one vocabulary.
        trained = "folder" in model and "new_vocabulary" not in model
        is_split = not self.tokenizer.shared and not trained
        if model["tie_embeddings"] == "all" and is_split:
            raise ValueError(
                'tokenizer.shared is false, but model.tie_embeddings "all" needs one '
                'vocabulary; set model.tie_embeddings to "target" or "none", or share '
                "the tokenizer"
            )
        if self.data.corrupts_spans and is_split:
            raise ValueError(
                "data.objective span_corruption needs one vocabulary for source and "
                "target, which are of one text; share the tokenizer"
            )
        if not model.get("folder"):
            self.data.check_languages()
        rows = self.longest
        for key in ("max_length", "packing"):
            length = getattr(self.data, key)
            if rows is not None and length is not None and length > rows:
                raise ValueError(
                    f"data.{key} {length} is more than the {rows} positions of "
                    f"model.max_sequence_length and model.position_offset; lower it, "
                    f"or raise model.max_sequence_length"
                )
        if self.data.validation is None and self.data.phrasebook is None:
            for key in ("patience", "keep_best", "average_best"):
                if getattr(self.training, key):
                    raise ValueError(
                        f"training.{key} needs to know what is best; give "
                        f"data.validation"
                    )
        best, metrics = self.training.best_metric, self.evaluation.metrics
        if ":" in best and best not in metrics:
            raise ValueError(
                f"training.best_metric {best} is none of evaluation.metrics; add it "
                f"there"
            )
        if trained:
            return self
        if self.training.lora is not None:
            raise ValueError(
                "training.lora adapts a trained model to its own vocabulary; give "
                "model.folder without model.new_vocabulary, or remove training.lora"
            )
        tokenizer = self.tokenizer
        size = tokenizer.vocabulary_size or VOCABULARY_SIZE
        self.translation_config(
            tokenizer.source_vocabulary_size or size,
            tokenizer.target_vocabulary_size or size,
        )
        return self

    def translation_config(
        self, source_vocabulary_size: int, target_vocabulary_size: int, **ids: int
    ) -> TranslationConfig:
        """The model's config, with the sizes and `special_ids` of its tokenizers."""
        return model_section.model_config(
            self.model, source_vocabulary_size, target_vocabulary_size, **ids
        )

    @property
    def longest(self) -> int | None:
        """Tokens that the learned positions of the model allow; None for any."""
        if self.model.get("position") != "learned":
            return None
        return self.model["max_sequence_length"] - self.model["position_offset"]

    @classmethod
    def __get_pydantic_json_schema__(
        cls, core_schema: Any, handler: pydantic.GetJsonSchemaHandler
    ) -> dict[str, Any]:
        """The schema of a config as it is written: every section may be left out."""
        schema = handler.resolve_ref_schema(handler(core_schema))
        properties = schema["properties"]
        properties["model"] = {**properties["model"], **model_section.json_schema()}
        schema["required"] = ["data"]
        return schema

    def to_yaml(self) -> str:
        """The config file of an equal object: all resolved, paths of texts absolute."""
        return strict_yaml.dump(self.plain())

    def plain(self) -> dict[str, Any]:
        """The content of that file."""
        return self.model_dump(mode="json", exclude_none=True)


def json_schema() -> dict[str, Any]:
    """The JSON schema of config files, for editors: keys, values and what they mean.

    Of a draft that editors know. What values must have to do with one another it does
    not say; `load_config` does.

    Example:

    >>> from keras_transformer.training.config import json_schema
    >>> json_schema()["properties"]["training"]["description"]
    'Training: how the weights are learned.'
    """
    schema = RunConfig.model_json_schema()
    schema["properties"] |= SeriesKeys.model_json_schema()["properties"]
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        **schema,
        "title": "Config of keras-transformer train",
    }


def load_config(path: str | Path | None, overrides: Sequence[str] = ()) -> RunConfig:
    """Reads a config file; opens none of the files that it names.

    Where `model.kind` is a class of your own, its module is imported. The file of a run
    folder imports none: there the module must have been imported before.

    Args:
        path: a YAML file; None for the embedded phrasebook's. Paths of corpora and
            tokenizers in it are relative to it, `output` to the working directory.
        overrides: `"training.steps=100"`, each as if it stood in the file.

    Raises:
        InputError: naming file, key and what is expected.

    Example:

    >>> from keras_transformer.training import load_config
    >>> load_config(None, ["training.steps=50"]).training.steps
    50
    """
    document = read_document(path, overrides)
    if keys := [key for key in OF_SERIES if key in document.content]:
        raise InputError(
            f"{document.where}: {keys[0]} is for several runs, which the command train "
            f"and `training.series.train_series` train; remove it for one run"
        )
    return document.config(document.content)


@dataclasses.dataclass(frozen=True)
class Document:
    """The content of a config file, not validated.

    Args:
        content: its keys.
        path: the file.
        where: the beginning of messages.
        overrides: those that are in the content already.
    """

    content: dict[str, Any]
    path: Path
    where: str
    overrides: Sequence[str] = ()

    @property
    def name(self) -> str | None:
        """The name of its run; None where the text names it."""
        return None if self.path == PHRASEBOOK else self.path.stem

    def config(self, content: Mapping[str, Any], about: str = "") -> RunConfig:
        """The config of some content, whose paths are relative to the file.

        Args:
            content: the keys.
            about: what of the file it is, for messages.
        """
        of_run = is_of_run(self.path)
        is_written = model_section.is_resolved(content.get("model"))
        context = {
            "folder": self.path.parent,
            "name": self.name,
            "imports": not of_run,
        }
        named = any(text.startswith("output=") for text in self.overrides)
        if of_run and is_written and not named:
            # Wherever the command is given, and wherever the folder is now.
            content = {**content, "output": str(_run_folder_of(self.path))}
        try:
            return RunConfig.model_validate(content, context=context)
        except pydantic.ValidationError as error:
            fault = first_fault(error, RunConfig, "")
            raise InputError(f"{self.where}: {about}{fault}") from None


def _run_folder_of(path: Path) -> Path:
    """The folder of a `config.yaml`, by a path that has its name."""
    folder = path.parent
    return folder if folder.name not in ("", "..") else Path(os.path.abspath(folder))


def read_document(path: str | Path | None, overrides: Sequence[str] = ()) -> Document:
    """The content of a config file, with overrides, but not validated.

    Args:
        path: see `load_config`.
        overrides: see `load_config`.

    Raises:
        InputError: where it cannot be read, or holds no keys.
    """
    where = "the embedded phrasebook.yaml" if path is None else str(path)
    path = PHRASEBOOK if path is None else Path(path)
    content = strict_yaml.parse(_read(path), where)
    content = {} if content is None else content
    if not isinstance(content, dict):
        raise InputError(
            f"{where}: expected keys such as data and training, got "
            f"{shown(content)}; give a config (YAML), which names the texts"
        )
    for text in overrides:
        override(content, text)
    if overrides:
        where += " with --set"
    if path == PHRASEBOOK:
        content["model"] = _for_kind(content["model"], overrides)
        content["data"] = _for_model(content["data"], content["model"], overrides)
    return Document(content, path, where, tuple(overrides))


def is_of_run(path: Path) -> bool:
    """Whether a config is that of a run folder, whose modules nobody has named."""
    others = ("checkpoints", "corpus.json", ".lock")
    of_run = any((path.parent / name).exists() for name in others)
    return path.name == "config.yaml" and of_run


def _for_kind(model: Any, overrides: Sequence[str]) -> Any:
    """The embedded model section without what the kind of an override lacks."""
    if not isinstance(model, dict) or "kind" not in model:
        return model
    given = {override.partition("=")[0] for override in overrides}
    return {
        key: value
        for key, value in model.items()
        if f"model.{key}" in given or model_section.has_field(model["kind"], key)
    }


def _for_model(data: Any, model: Any, overrides: Sequence[str]) -> Any:
    """The embedded data section, without packing where the kind has none."""
    kind = model.get("kind") if isinstance(model, dict) else None
    given = any(text.partition("=")[0] == "data.packing" for text in overrides)
    if kind in (None, "transformer") or given or not isinstance(data, dict):
        return data
    return {key: value for key, value in data.items() if key != "packing"}


def as_begun(before: RunConfig, config: RunConfig) -> RunConfig:
    """A config by the rules of the version that began its run.

    A version that took no decoding options from `model.folder` had its own defaults
    for what nobody gave.

    Args:
        before: the stored config of the run.
        config: the one that it is to go on with.
    """
    folder = config.model.get("folder")
    knows = map(model_section.knows_ids, (before.model, config.model))
    if not folder or [*knows] != [False, True]:
        return config
    stands_in = model_section.trained_decoding(Path(folder), {})
    given = {
        name: value
        for name, value in config.decoding.changed().items()
        if stands_in.get(name) != value
    }
    decoding = before.decoding.updated(given)
    model = model_section.without_ids(config.model)
    return config.model_copy(update={"decoding": decoding, "model": model})


def difference(before: RunConfig, after: RunConfig) -> list[str]:
    """A line such as `training.seed: 1 -> 2` for each key that makes it another run.

    Left out are keys that change no number of the training: where texts and folders
    are, how they are encoded, how the trained model searches; and `new_bookkeeping`.
    """
    more = before.training.steps < after.training.steps
    return [line for key, line in _changes(before, after) if not _may(key, more)]


def new_bookkeeping(before: RunConfig, after: RunConfig) -> list[str]:
    """A line as of `difference` for each key that a run may have changed.

    More `training.steps`, intervals, what is kept, when it ends early, what the final
    model is the mean of, whether blocks are recomputed, how translations are scored.
    """
    more = before.training.steps < after.training.steps
    return [line for key, line in _changes(before, after) if _may(key, more)]


def _may(key: str, more_steps: bool) -> bool:
    """Whether a run that has begun may have it changed."""
    if key == "training.steps":
        return more_steps
    return _BOOKKEEPING.fullmatch(key) is not None


def _changes(before: RunConfig, after: RunConfig) -> Iterator[tuple[str, str]]:
    """Keys and lines, without those that change no number of the training."""
    old, new = (dict(_flat(config.plain())) for config in (before, after))
    # Runs of before wrote down what was the default then. What a run has is in its
    # tokenizer, which is kept.
    rule = "tokenizer.normalization"
    if old.get(rule) == "identity" and rule not in new:
        del old[rule]
    for key in {**old, **new}:
        was, is_now = old.get(key), new.get(key)
        if was == is_now or _NO_EFFECT_ON_TRAINING.fullmatch(key):
            continue
        is_text = _TEXTS.fullmatch(key) and None not in (was, is_now)
        # Files may have moved, but not from one corpus to another.
        if not is_text or _num_files(was) != _num_files(is_now):
            yield key, f"{key}: {was} -> {is_now}"


def without_places(config: RunConfig) -> dict[str, Any]:
    """The values of a config by key, without where its folders and texts lie."""
    values = _flat(config.plain())
    return {
        key: _num_files(value) if _TEXTS.fullmatch(key) else value
        for key, value in values
        if not _PLACES.fullmatch(key)
    }


def _num_files(value: Any) -> int:
    return len(value) if isinstance(value, list) else 1


def override(document: dict[str, Any], text: str) -> None:
    """Sets a key of a document, in place.

    Args:
        document: the content of a config file.
        text: `"training.steps=100"`.

    Raises:
        InputError: where it has not that form.
    """
    key, equals, value = text.partition("=")
    *parents, last = key.split(".")
    if not equals or not all((*parents, last)):
        raise InputError(
            f"--set {text}: expected key=value, such as training.steps=100"
        )
    section = document
    for parent in parents:
        if section.get(parent) is None:
            section[parent] = {}
        section = section[parent]
        if not isinstance(section, dict):
            raise InputError(f"--set {text}: {parent} has no keys; set it as a whole")
    section[last] = strict_yaml.parse(value, f"--set {key}")


def _flat(content: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in content.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        elif value and isinstance(value, list) and isinstance(value[0], dict):
            numbered = {str(number): item for number, item in enumerate(value)}
            yield from _flat(numbered, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


def _read(path: Path) -> str:
    if (path / "config.yaml").is_file():
        raise InputError(
            f"{path} is a folder; give the config file of the run, or, to go on with "
            f"it, {path / 'config.yaml'}"
        )
    try:
        with path.open("rb") as file:  # no more of it than is parsed
            content = file.read(4 * strict_yaml.MOST_CHARACTERS + 1)
        if len(content) > 4 * strict_yaml.MOST_CHARACTERS:
            raise InputError(
                f"{path}: a config has at most {strict_yaml.MOST_CHARACTERS} "
                f"characters; check the path"
            )
        return content.decode("utf-8-sig").replace("\r\n", "\n").replace("\r", "\n")
    except OSError as error:
        raise InputError(
            f"cannot read {path}: {error.strerror}; check the path"
        ) from None
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{path}, line {line}: not UTF-8; convert the file to UTF-8"
        ) from None
