"""The sections of a run config about text: tokenizer and corpora."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal

import pydantic

from keras_transformer.data.columns import FORMATS
from keras_transformer.data.columns import columns_fault
from keras_transformer.data.phrasebook import LANGUAGES
from keras_transformer.data.tokenizer_training import LEAST_COVERAGE
from keras_transformer.data.tokenizer_training import NORMALIZATIONS
from keras_transformer.data.tokenizer_training import check_symbols
from keras_transformer.training.config.section import Count
from keras_transformer.training.config.section import Section
from keras_transformer.training.config.section import expanded

PHRASEBOOK_PAIRS = tuple("-".join(pair) for pair in permutations(LANGUAGES, 2))
VOCABULARY_SIZE = 37_000  # the paper's English-German

_CORPUS_KEYS = ({"source", "target"}, *({format} for format in FORMATS))


def _absolute(value: Any, info: pydantic.ValidationInfo) -> Path:
    """A path as written is relative to the config file, or in Python to the process."""
    if not isinstance(value, str | Path) or not str(value):
        raise ValueError(f"expected a path, got {value!r}")
    folder = (info.context or {}).get("folder", "")
    return Path(os.path.abspath(folder / expanded(value)))


def _as_files(value: Any) -> Any:
    if isinstance(value, str | Path):
        return (value,)
    if not isinstance(value, list | tuple) or not value:
        raise ValueError(f"expected a path or a list of paths, got {value!r}")
    return tuple(value)


def _as_corpora(value: Any) -> Any:
    if value is not None and (not isinstance(value, list | tuple) or not value):
        raise ValueError(
            f"expected a list of corpora, each with source and target, or one of "
            f"{', '.join(FORMATS)}, got {value!r}"
        )
    return value and tuple(value)


def _as_columns(value: Any) -> Any:
    if value is not None and not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of two columns, got {value!r}")
    return value and tuple(value)


def _pair(value: Any) -> Any:
    if value is not None and value not in PHRASEBOOK_PAIRS:
        raise ValueError(
            f"expected one of {', '.join(PHRASEBOOK_PAIRS)} for the embedded "
            f"phrasebook, got {value!r}"
        )
    return value


File = Annotated[Path, pydantic.BeforeValidator(_absolute)]
_SIZES = ("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size")
_TRAINING_OPTIONS = {
    "split_digits": False,
    "character_coverage": 1.0,
    "user_defined_symbols": (),
}
# 256 bytes and 4 special ids are in every vocabulary.
VocabularySize = Annotated[int, pydantic.Field(ge=260)]

Files = Annotated[tuple[File, ...], pydantic.BeforeValidator(_as_files)]


def _as_symbols(value: Any) -> Any:
    if not isinstance(value, list | tuple):
        raise ValueError(f"expected a list of strings, got {value!r}")
    return tuple(value)


def _checked_symbols(value: tuple[str, ...]) -> tuple[str, ...]:
    check_symbols(value)
    return value


def _resolved_sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    """The vocabulary sizes of tokenizers to train, and whether they are one."""
    sizes = [key for key in _SIZES[1:] if key in given]
    if not sizes:
        return {"vocabulary_size": VOCABULARY_SIZE, "shared": True}
    if len(sizes) == 1:
        raise ValueError(
            "source_vocabulary_size and target_vocabulary_size belong together; give "
            "both, or vocabulary_size"
        )
    if "vocabulary_size" in given:
        raise ValueError("give either vocabulary_size or one for each side, not both")
    if given.get("shared"):
        raise ValueError(
            "shared true does not go with source_vocabulary_size; remove it, or give "
            "vocabulary_size"
        )
    return {"shared": False}


class TokenizerSection(Section):
    """Trained on the training text, or read from files.

    Args:
        vocabulary_size: V of a tokenizer to train; 37000.
        source_vocabulary_size: V of a tokenizer for the source alone, with
            `target_vocabulary_size` instead of `vocabulary_size`.
        target_vocabulary_size: see `source_vocabulary_size`.
        path: a trained one for source and target.
        source_path: a trained one for the source, with `target_path`.
        target_path: see `source_path`.
        shared: one vocabulary for source and target; true, unless source and target
            have paths or vocabulary sizes of their own.
        normalization: `"whitespace"`, `"identity"`, `"nfkc"` or `"nmt_nfkc"`, see
            `Tokenizer.train`. Left out: `"whitespace"`, or in a run that was begun, its
            tokenizer's own.
        split_digits: each digit a piece of its own; false.
        character_coverage: the share of the text whose characters get pieces; 1.
        user_defined_symbols: each always one piece; none.
    """

    vocabulary_size: VocabularySize | None = None
    source_vocabulary_size: VocabularySize | None = None
    target_vocabulary_size: VocabularySize | None = None
    path: File | None = None
    source_path: File | None = None
    target_path: File | None = None
    shared: bool | None = None
    normalization: Literal[NORMALIZATIONS] | None = None
    split_digits: bool | None = None
    character_coverage: (
        Annotated[float, pydantic.Field(ge=LEAST_COVERAGE, le=1)] | None
    ) = None
    user_defined_symbols: (
        Annotated[
            tuple[str, ...],
            pydantic.BeforeValidator(_as_symbols),
            pydantic.AfterValidator(_checked_symbols),
        ]
        | None
    ) = None

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        paths = [key for key in ("path", "source_path", "target_path") if key in given]
        if not paths:
            return {**_resolved_sizes(given), **_TRAINING_OPTIONS, **given}
        if "path" in paths and len(paths) > 1:
            raise ValueError(f"give either path or {paths[1]}, not both")
        if len(paths) == 1 and "path" not in paths:
            raise ValueError("source_path and target_path belong together; give both")
        for key in (*_SIZES, "normalization", *_TRAINING_OPTIONS):
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
    """Parallel text: files of lines, or files that hold both sides.

    Files may be packed with gzip, bzip2, xz or zstd.

    Args:
        source: a file, or several, read one after the other.
        target: their translations, in the same order.
        tsv: instead a file with both, or several: lines with tabs in them.
        csv: or rows with commas between, in quotes where need be.
        jsonl: or JSON objects, one a line.
        parquet: or Parquet, which needs pyarrow.
        tmx: or a translation memory.
        columns: source and target in such files; see `read_pairs`.
    """

    source: Files | None = None
    target: Files | None = None
    tsv: Files | None = None
    csv: Files | None = None
    jsonl: Files | None = None
    parquet: Files | None = None
    tmx: Files | None = None
    columns: Annotated[
        tuple[int | str, ...] | None, pydantic.BeforeValidator(_as_columns)
    ] = None

    @pydantic.model_validator(mode="after")
    def _check_files(self) -> Corpus:
        given = self.model_dump(exclude_none=True).keys() - {"weight", "columns"}
        if given not in _CORPUS_KEYS:
            raise ValueError(f"give source and target, or one of {', '.join(FORMATS)}")
        if self.source:
            if self.columns:
                raise ValueError(
                    "columns belong to a file with both sides; remove them"
                )
        elif fault := columns_fault(*given, self.columns):
            raise ValueError(fault)
        if self.source and len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} source files do not pair with "
                f"{len(self.target)} target files; give one target for each source"
            )
        return self


class TrainingCorpus(Corpus):
    """A corpus to learn from.

    Args:
        weight: how often each of its pairs is seen in an epoch, 0.0001 to 10000; with
            0.25 every epoch sees another quarter of them.
    """

    weight: Annotated[float, pydantic.Field(ge=1e-4, le=1e4)] = 1.0


class FilterSection(Section):
    """Which pairs are left out of the training; tokens as before `bpe_dropout`.

    Args:
        min_length: the fewest tokens of either side, without the end token.
        max_ratio: the most tokens of one side for each token of the other, either way
            round.
        unique: whether pairs that were there before are dropped; takes 8 bytes of
            memory a pair while the text is encoded.
    """

    min_length: Count = 1
    max_ratio: Annotated[float, pydantic.Field(ge=1)] | None = None
    unique: bool = False


class DataSection(Section):
    """The texts of a run, and how they are batched.

    Args:
        train: corpora to learn from.
        validation: scored while training.
        test: scored once, at the end.
        phrasebook: instead of these, the embedded corpus: `"en-de"` or another
            ordered pair of en, de and fr.
        batch_tokens: target tokens in a batch, over all devices; `"auto"`: the
            paper's 25000, or as many as the memory holds, tried with each shape.
        batch_source_tokens: the most source tokens in a batch; as many as
            `batch_tokens`.
        max_length: longer pairs, in tokens, are left out of the training.
        filters: what else is left out of it.
        bpe_dropout: the probability with which a merge of byte-pair encoding is left
            out, anew each time a pair is trained on (Provilkov et al., 2020).
        cache: the folder of the encoded training text, which several runs may share;
            `encoded` in the run folder.
        workers: processes that encode it; `"all"` for one on each core.
    """

    train: Annotated[
        tuple[TrainingCorpus, ...] | None, pydantic.BeforeValidator(_as_corpora)
    ] = None
    validation: Corpus | None = None
    test: Corpus | None = None
    phrasebook: Annotated[str | None, pydantic.BeforeValidator(_pair)] = None
    batch_tokens: Count | Literal["auto"] = 25_000
    batch_source_tokens: Count | None = None
    max_length: Count = 128
    filters: FilterSection = FilterSection()
    bpe_dropout: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.0
    cache: File | None = None
    workers: Count | Literal["all"] = "all"

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
