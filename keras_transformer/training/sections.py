"""The sections of a run config, each a frozen and strict object."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.data.phrasebook import LANGUAGES

PHRASEBOOK_PAIRS = tuple("-".join(pair) for pair in permutations(LANGUAGES, 2))
DISTRIBUTIONS = (
    "mirrored",
    "multi_worker",
    "data_parallel",
    "model_parallel",
    "torchrun",
)
VOCABULARY_SIZE = 37_000  # the paper's English-German

_CORPUS_KEYS = ({"source", "target"}, {"tsv"})


def _absolute(value: Any, info: pydantic.ValidationInfo) -> Path:
    """A path as written is relative to the config file, or in Python to the process."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"expected a path, got {value!r}")
    folder = (info.context or {}).get("folder", "")
    return Path(os.path.abspath(folder / Path(value).expanduser()))


def _as_files(value: Any) -> Any:
    if isinstance(value, str | Path):
        return (value,)
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"expected a path or a list of paths, got {value!r}")
    return tuple(value)


def _as_corpora(value: Any) -> Any:
    if value is not None and (not isinstance(value, list | tuple) or not value):
        raise ValueError(
            f"expected a list of corpora, each with source and target, or tsv, got "
            f"{value!r}"
        )
    return value and tuple(value)


def _pair(value: Any) -> Any:
    if value is not None and value not in PHRASEBOOK_PAIRS:
        raise ValueError(
            f"expected one of {', '.join(PHRASEBOOK_PAIRS)} for the embedded "
            f"phrasebook, got {value!r}"
        )
    return value


def _not_yet(*values: Any, instead: str) -> pydantic.BeforeValidator:
    """Refuses values that are part of the surface but not there yet."""

    def refuse(value: Any) -> Any:
        if value in values:
            raise ValueError(f"{value} is not available yet; use {instead}")
        return value

    return pydantic.BeforeValidator(refuse)


File = Annotated[Path, pydantic.BeforeValidator(_absolute)]
Files = Annotated[tuple[File, ...], pydantic.BeforeValidator(_as_files)]
Count = pydantic.PositiveInt


class Section(pydantic.BaseModel):
    """Frozen; of exact types; an unknown key is an error."""

    model_config = pydantic.ConfigDict(
        frozen=True, extra="forbid", strict=True, allow_inf_nan=False
    )


class TokenizerSection(Section):
    """Trained on the training text, or read from files.

    Args:
        vocabulary_size: V of a tokenizer to train; 37000.
        path: a trained one for source and target.
        source_path: a trained one for the source, with `target_path`.
        target_path: see `source_path`.
        shared: one vocabulary for source and target; true without `source_path`.
        normalization: `"identity"` (the default) or `"nmt_nfkc"`.
        split_digits: each digit a piece of its own; false.
    """

    # 256 bytes and 4 special ids are in every vocabulary.
    vocabulary_size: Annotated[int, pydantic.Field(ge=260)] | None = None
    path: File | None = None
    source_path: File | None = None
    target_path: File | None = None
    shared: bool | None = None
    normalization: Literal["identity", "nmt_nfkc"] | None = None
    split_digits: bool | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        paths = [key for key in ("path", "source_path", "target_path") if key in given]
        if not paths:
            options = {"normalization": "identity", "split_digits": False}
            defaults = {"vocabulary_size": VOCABULARY_SIZE, "shared": True, **options}
            return {**defaults, **given}
        if "path" in paths and len(paths) > 1:
            raise ValueError(f"give either path or {paths[1]}, not both")
        if len(paths) == 1 and "path" not in paths:
            raise ValueError("source_path and target_path belong together; give both")
        for key in ("vocabulary_size", "normalization", "split_digits"):
            if key in given:
                raise ValueError(
                    f"{paths[0]} names a trained tokenizer, which {key} cannot "
                    f"change; remove one of the two"
                )
        shared = paths == ["path"]
        if given.setdefault("shared", shared) != shared:
            mend = "source_path and target_path" if shared else "path"
            raise ValueError(
                f"shared {str(not shared).lower()} does not go with {paths[0]}; "
                f"remove it, or give {mend}"
            )
        return given


class Corpus(Section):
    """Parallel text: files of lines, or files of `source<TAB>target` lines.

    Args:
        source: a file, or several, read one after the other.
        target: their translations, in the same order.
        tsv: a file with both, or several.
    """

    source: Files | None = None
    target: Files | None = None
    tsv: Files | None = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _check_keys(cls, fields: Any) -> Any:
        if isinstance(fields, Mapping) and "weight" in fields:
            raise ValueError(
                "weight is not available yet; remove it, the corpora are mixed by size"
            )
        return fields

    @pydantic.model_validator(mode="after")
    def _check_files(self) -> Corpus:
        if self.model_dump(exclude_none=True).keys() not in _CORPUS_KEYS:
            raise ValueError("give source and target, or tsv")
        if self.source and len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} source files do not pair with "
                f"{len(self.target)} target files; give one target for each source"
            )
        return self


class DataSection(Section):
    """The texts of a run, and how they are batched.

    Args:
        train: corpora to learn from.
        validation: scored while training.
        test: scored once, at the end.
        phrasebook: instead of these, the embedded corpus: `"en-de"` or another
            ordered pair of en, de and fr.
        batch_tokens: target tokens in a batch.
        max_length: longer pairs, in tokens, are left out of the training.
    """

    train: Annotated[
        tuple[Corpus, ...] | None, pydantic.BeforeValidator(_as_corpora)
    ] = None
    validation: Corpus | None = None
    test: Corpus | None = None
    phrasebook: Annotated[str | None, pydantic.BeforeValidator(_pair)] = None
    batch_tokens: Annotated[Count, _not_yet("auto", instead="a number")] = 25_000
    max_length: Count = 128

    @pydantic.model_validator(mode="after")
    def _check(self) -> DataSection:
        if self.phrasebook is None:
            if self.train is None:
                raise ValueError("give train, a list of corpora, or phrasebook")
            return self
        for key in ("train", "validation", "test"):
            if getattr(self, key) is not None:
                raise ValueError(
                    f"the phrasebook has texts of its own; remove phrasebook or {key}"
                )
        return self


class TrainingSection(Section):
    """How the weights are learned.

    Args:
        steps: updates of the weights.
        warmup_steps: steps in which the learning rate rises.
        learning_rate: its peak; None for the paper's, D^-0.5 * warmup_steps^-0.5.
        schedule: how it falls: `"inverse_square_root"` (the paper's) or `"cosine"`,
            half a cosine to 0 at `steps`.
        label_smoothing: share of the target spread over the whole vocabulary.
        validate_every: steps between validations.
        checkpoint_every: steps between checkpoints.
        keep_checkpoints: how many, the latest, stay on disk.
        average_last: checkpoints whose mean is the final model.
        precision: `"float32"` or `"mixed_bfloat16"`.
        distribution: `"none"`.
        devices: `"all"`.
        seed: of initial weights, dropout and the order of the batches.
    """

    steps: Count = 100_000
    warmup_steps: Count = 4000
    learning_rate: pydantic.PositiveFloat | None = None
    schedule: Literal["inverse_square_root", "cosine"] = "inverse_square_root"
    label_smoothing: Annotated[float, pydantic.Field(ge=0.0, lt=1.0)] = 0.1
    validate_every: Count = 1000
    checkpoint_every: Count = 1000
    keep_checkpoints: Count = 10
    average_last: Count = 5
    precision: Literal["float32", "mixed_bfloat16"] = "float32"
    distribution: Annotated[
        Literal["none"], _not_yet(*DISTRIBUTIONS, instead="none")
    ] = "none"
    devices: Literal["all"] = "all"
    seed: pydantic.NonNegativeInt = 1

    @pydantic.field_validator("devices", mode="before")
    @classmethod
    def _check_devices(cls, value: Any) -> Any:
        if type(value) is int:
            raise ValueError(f"{value} is not available yet; use all")
        return value


class DecodingSection(Section):
    """The search: defaults of the model folder, and of the final test.

    Args:
        beam_size: W; 1 is greedy search.
        length_penalty: alpha.
    """

    beam_size: Count = 4
    length_penalty: pydantic.NonNegativeFloat = 0.6
