"""The sections of a run config about text: tokenizer and corpora."""

from __future__ import annotations

import os
from collections.abc import Mapping
from itertools import permutations
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal

import numpy as np
import pydantic

from keras_transformer.config.own_kinds import module_of
from keras_transformer.data.columns import FORMATS
from keras_transformer.data.columns import columns_fault
from keras_transformer.data.corpus_tags import check_tag
from keras_transformer.data.language_tags import tag
from keras_transformer.data.phrasebook import LANGUAGES
from keras_transformer.data.span_corruption import corrupted_lengths
from keras_transformer.data.span_corruption import num_sentinels
from keras_transformer.data.tokenizer_training import LEAST_COVERAGE
from keras_transformer.data.tokenizer_training import Normalization
from keras_transformer.data.tokenizer_training import check_symbols
from keras_transformer.training.config.section import Count
from keras_transformer.training.config.section import Section
from keras_transformer.training.config.section import expanded

PHRASEBOOK_PAIRS = tuple("-".join(pair) for pair in permutations(LANGUAGES, 2))
VOCABULARY_SIZE = 37_000  # the paper's English-German

_NO_FILES = {
    "weight",
    "tag",
    "prefix",
    "columns",
    "source_language",
    "target_language",
}
_CORPUS_KEYS = ({"source", "target"}, *({name} for name in (*FORMATS, "manifest")))


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
_PATHS = {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]}
_SIZES = ("vocabulary_size", "source_vocabulary_size", "target_vocabulary_size")
TRAINING_OPTIONS = {
    "split_digits": False,
    "character_coverage": 1.0,
    "user_defined_symbols": (),
}
# 256 bytes and 4 special ids are in every vocabulary.
VocabularySize = Annotated[int, pydantic.Field(ge=260)]

Files = Annotated[
    tuple[File, ...],
    pydantic.BeforeValidator(_as_files),
    pydantic.WithJsonSchema(_PATHS),
]


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


def _checked_class(value: str) -> str:
    if module_of(value) is None:
        raise ValueError(f"expected a class of your own as module.Class, got {value!r}")
    return value


class TokenizerSection(Section):
    """Tokenizers: trained on the training text, or read from files."""

    kind: Annotated[str, pydantic.AfterValidator(_checked_class)] | None = None
    """Tokenizer class of your own, a subclass of `keras_transformer.data.Tokenizer`, as
    `"module.Class"`: it trains, encodes and decodes as it is written, and may read a
    plain SentencePiece file at `path`. Left out: `Tokenizer`, or the class that a file
    names."""
    vocabulary_size: VocabularySize | None = None
    """Vocabulary size V of a tokenizer to train; 37000 if left out."""
    source_vocabulary_size: VocabularySize | None = None
    """Vocabulary size of a tokenizer for the source alone, with
    `target_vocabulary_size` instead of `vocabulary_size`."""
    target_vocabulary_size: VocabularySize | None = None
    """Vocabulary size of a tokenizer for the target alone, see
    `source_vocabulary_size`."""
    path: File | None = None
    """Tokenizer file: a trained one, for source and target."""
    source_path: File | None = None
    """Tokenizer file of the source, with `target_path`."""
    target_path: File | None = None
    """Tokenizer file of the target, see `source_path`."""
    shared: bool | None = None
    """Shared vocabulary of source and target; true, unless they have paths or
    vocabulary sizes of their own."""
    normalization: Normalization | None = None
    """Normalization of text: `"whitespace"`, `"identity"`, `"nfkc"` or `"nmt_nfkc"`,
    see `Tokenizer.train`. Left out: `"whitespace"`, or in a run that was begun, its
    tokenizer's own."""
    split_digits: bool | None = None
    """Digit splitting: whether each digit is a piece of its own; false if left out."""
    character_coverage: (
        Annotated[float, pydantic.Field(ge=LEAST_COVERAGE, le=1)] | None
    ) = None
    """Character coverage: the share of the text whose characters get pieces; 1 if left
    out."""
    user_defined_symbols: (
        Annotated[
            tuple[str, ...],
            pydantic.BeforeValidator(_as_symbols),
            pydantic.AfterValidator(_checked_symbols),
        ]
        | None
    ) = None
    """User-defined symbols, each of which is always one piece; none if left out."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        if not isinstance(fields, Mapping):
            return fields
        given = {key: value for key, value in fields.items() if value is not None}
        paths = [key for key in ("path", "source_path", "target_path") if key in given]
        if not paths:
            return {**_resolved_sizes(given), **TRAINING_OPTIONS, **given}
        if "path" in paths and len(paths) > 1:
            raise ValueError(f"give either path or {paths[1]}, not both")
        if len(paths) == 1 and "path" not in paths:
            raise ValueError("source_path and target_path belong together; give both")
        for key in (*_SIZES, "normalization", *TRAINING_OPTIONS):
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


def _checked_language(value: str) -> str:
    check_symbols([tag(value)])
    return value


Language = Annotated[
    str, pydantic.Field(min_length=1), pydantic.AfterValidator(_checked_language)
]


def _checked_tag(value: str) -> str:
    check_tag(value)
    return value


Tag = Annotated[str, pydantic.AfterValidator(_checked_tag)]


def _checked_prefix(value: str) -> str:
    if not value.strip() or "\n" in value:
        raise ValueError(f"expected text on one line, got {value!r}")
    return value


Prefix = Annotated[str, pydantic.AfterValidator(_checked_prefix)]


class Corpus(Section):
    """Parallel text: files of lines, or files that hold both sides.

    Files may be packed with gzip, bzip2, xz or zstd.
    """

    source: Files | None = None
    """Source text: a file, or several, read one after the other."""
    target: Files | None = None
    """Target text: the translations, in the same order."""
    tsv: Files | None = None
    """TSV file with both sides instead, or several: lines with tabs in them."""
    csv: Files | None = None
    """CSV file with both sides: rows with commas between, in quotes where need be."""
    jsonl: Files | None = None
    """JSON Lines file with both sides: a JSON object on each line."""
    parquet: Files | None = None
    """Parquet file with both sides; needs pyarrow."""
    tmx: Files | None = None
    """TMX file: a translation memory."""
    columns: Annotated[
        tuple[int | str, ...] | None, pydantic.BeforeValidator(_as_columns)
    ] = None
    """Columns of source and target in a file with both sides; see `read_pairs`."""
    source_language: Language | None = None
    """Source language of a multilingual model: a code, such as `"de"`."""
    target_language: Language | None = None
    """Target language, in the same way."""
    prefix: Prefix | None = None
    """Prefix of the task, such as `"translate English to German: "`: text in front of
    every source, for several tasks in one model (Raffel et al., 2020). It counts under
    `max_length`; lines to translate are given with it. None if left out."""

    @pydantic.model_validator(mode="after")
    def _check_files(self) -> Corpus:
        given = self.model_dump(exclude_none=True).keys() - _NO_FILES
        if given not in _CORPUS_KEYS:
            raise ValueError(f"give source and target, or one of {', '.join(FORMATS)}")
        if given == {"manifest"}:
            if self.columns:
                raise ValueError("columns belong to a file, not to a manifest")
            return self
        if self.source is None or self.target is None:
            (form,) = given
            if fault := columns_fault(form, self.columns):
                raise ValueError(fault)
            return self
        if self.columns:
            raise ValueError("columns belong to a file with both sides; remove them")
        if len(self.source) != len(self.target):
            raise ValueError(
                f"{len(self.source)} source files do not pair with "
                f"{len(self.target)} target files; give one target for each source"
            )
        return self


class TrainingCorpus(Corpus):
    """Parallel text to learn from."""

    manifest: File | None = None
    """Translated corpus instead of files: a folder that `distill` or `backtranslate`
    wrote, with its manifest."""
    weight: Annotated[float, pydantic.Field(ge=1e-4, le=1e4)] = 1.0
    """Sampling weight: how often each pair of the corpus is seen in an epoch, 0.0001 to
    10000; with 0.25 every epoch sees another quarter of them."""
    tag: Tag | None = None
    """Tag of the corpus, such as `"<bt>"`: a reserved symbol in front of every source,
    which tells the model where the pair comes from (Caswell et al., 2019). It counts
    under `max_length`; text is translated without it. None if left out."""


class FilterSection(Section):
    """Filters of pairs of the training text.

    Tokens are those before `bpe_dropout`, without a `prefix`.
    """

    min_length: Count = 1
    """Minimum length: the fewest tokens of either side, without the end token."""
    max_ratio: Annotated[float, pydantic.Field(ge=1)] | None = None
    """Length ratio, at most: tokens of one side for each token of the other, either way
    round; None for any."""
    unique: bool = False
    """Deduplication: whether pairs that were there before are dropped; takes 8 bytes of
    memory a pair while the text is encoded."""


Probability = Annotated[float, pydantic.Field(ge=0, le=1)]


class AugmentSection(Section):
    """Augmentation of the source of the training text, anew in each epoch."""

    upper: Probability = 0.0
    """Upper-casing: the share of the lines whose source is in upper case; the target
    stays as it is."""
    title: Probability = 0.0
    """Title-casing: the share of the lines whose source has each word begin with a
    capital letter."""
    lower: Probability = 0.0
    """Lower-casing: the share of the lines whose source is in lower case."""
    typos: Probability = 0.0
    """Typos: the probability of one in each word of a source: letters that change
    places, are missing, doubled or mistaken."""

    @property
    def casings(self) -> dict[str, float]:
        """The shares of the casings."""
        return {"upper": self.upper, "title": self.title, "lower": self.lower}

    @property
    def changes_text(self) -> bool:
        """Whether any source is changed."""
        return any(self.model_dump().values())

    @pydantic.model_validator(mode="after")
    def _check(self) -> AugmentSection:
        if sum(self.casings.values()) > 1:
            raise ValueError(
                "upper, title and lower are shares of the lines; together they may be "
                "1 at most"
            )
        return self


class SpanCorruptionSection(Section):
    """Span corruption, with `objective: span_corruption`."""

    rate: Annotated[float, pydantic.Field(gt=0, lt=1)] = 0.15
    """Corruption rate: the share of the tokens of a line that are left out, at least
    one."""
    mean_length: Annotated[float, pydantic.Field(ge=1)] = 3.0
    """Mean span length: the mean number of tokens in a gap."""

    def num_sentinels(self, max_length: int) -> int:
        """The sentinels that lines of up to `max_length` tokens need, end included."""
        return num_sentinels(max_length - 1, self.rate, self.mean_length)


def _with_targets(corpora: Any) -> Any:
    """Text in one language on both sides of a corpus."""
    if not isinstance(corpora, list | tuple):
        return corpora
    return [
        {**corpus, "target": corpus["source"]}
        if isinstance(corpus, Mapping)
        and corpus.get("source") is not None
        and corpus.get("target") is None
        else corpus
        for corpus in corpora
    ]


class DataSection(Section):
    """Texts of a run, and how they are batched."""

    objective: Literal["translation", "span_corruption"] = "translation"
    """Objective: what is learned from the texts: `"translation"`, the target of each
    source; or `"span_corruption"`, the denoising of T5 (Raffel et al., 2020), for which
    each corpus of `train` is a `source` alone; see docs/text_to_text.md."""
    span_corruption: SpanCorruptionSection = SpanCorruptionSection()
    """Span corruption: lines with gaps as sources, and what stood in them as targets,
    drawn anew each time a line is trained on."""
    train: Annotated[
        tuple[TrainingCorpus, ...] | None, pydantic.BeforeValidator(_as_corpora)
    ] = None
    """Training text: corpora to learn from."""
    validation: Corpus | None = None
    """Validation text, scored while training."""
    test: Corpus | None = None
    """Test text, scored once, at the end."""
    phrasebook: Annotated[
        str | None,
        pydantic.BeforeValidator(_pair),
        pydantic.WithJsonSchema({"enum": [*PHRASEBOOK_PAIRS, None]}),
    ] = None
    """Phrasebook: instead of these texts the embedded corpus, `"en-de"` or another
    ordered pair of en, de and fr."""
    batch_tokens: Count | Literal["auto"] = 25_000
    """Batch size in target tokens, over all devices; `"auto"`: the paper's 25000, or as
    many as the memory holds, tried with each shape."""
    batch_source_tokens: Count | None = None
    """Batch size in source tokens, at most; as many as `batch_tokens` if left out."""
    max_length: Count = 128
    """Maximum length in tokens: longer pairs are left out."""
    packing: Count | None = None
    """Packing: short pairs share rows of so many positions, which must hold the longest
    pair, so that all batches have one shape, and little padding (see `PackedBatches`);
    a row for each pair if left out."""
    filters: FilterSection = FilterSection()
    """Corpus filters: which other pairs are left out."""
    temperature: Annotated[float, pydantic.Field(ge=1, le=1000)] | None = None
    """Sampling temperature T of a multilingual training: a pair of languages with n
    sentence pairs is seen in proportion to n^(1/T), so that small ones come more often;
    an epoch keeps its size. Each as often as it is there, if left out."""
    bpe_dropout: Annotated[float, pydantic.Field(ge=0, lt=1)] = 0.0
    """BPE-dropout: the probability with which a merge of byte-pair encoding is left
    out, anew each time a pair is trained on (Provilkov et al., 2020)."""
    augment: AugmentSection = AugmentSection()
    """Augmentation: sources in another case and with typos, anew each time a pair is
    trained on; see docs/robust_translation.md."""
    cache: File | None = None
    """Cache folder of the encoded training text, which several runs may share;
    `encoded` in the run folder if left out."""
    workers: Count | Literal["all"] = "all"
    """Worker processes that encode the training text; `"all"` for one on each core."""

    @pydantic.model_validator(mode="before")
    @classmethod
    def _resolve(cls, fields: Any) -> Any:
        corrupts = isinstance(fields, Mapping) and (
            fields.get("objective") == "span_corruption"
        )
        if not corrupts or fields.get("train") is None:
            return fields
        return {**fields, "train": _with_targets(fields["train"])}

    @pydantic.model_validator(mode="after")
    def _check(self) -> DataSection:
        self._check_packing()
        if self.corrupts_spans:
            self._check_span_corruption()
        elif self.span_corruption != SpanCorruptionSection():
            raise ValueError(
                "span_corruption is for another objective; add objective: "
                "span_corruption, or remove it"
            )
        if self.augment.changes_text and any(
            corpus.prefix for corpus in self.train or ()
        ):
            raise ValueError(
                "augment would change the prefix of a corpus, too; remove augment, or "
                "the prefix"
            )
        if self.temperature is not None and not self.has_languages:
            raise ValueError(
                "temperature weighs pairs of languages; give the corpora of train "
                "source_language and target_language, or weight alone"
            )
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

    def _check_packing(self) -> None:
        if self.packing is None:
            return
        if self.packing < self.max_length:
            raise ValueError(
                f"packing {self.packing} does not hold a pair of max_length "
                f"{self.max_length}; give at least as much, or lower max_length"
            )
        if self.batch_source_tokens is not None:
            raise ValueError(
                "rows of packing have as many source as target positions; remove "
                "batch_source_tokens"
            )

    @property
    def corrupts_spans(self) -> bool:
        """Whether the objective is span corruption."""
        return self.objective == "span_corruption"

    def _check_span_corruption(self) -> None:
        """Refuses what span corruption has no use for."""
        for key in ("phrasebook", "validation", "test"):
            if getattr(self, key) is not None:
                raise ValueError(
                    f"objective span_corruption learns from text in one language, and "
                    f"{key} is of pairs; remove {key}"
                )
        for number, corpus in enumerate(self.train or ()):
            given = corpus.model_dump(exclude_defaults=True).keys() - {"weight"}
            if given != {"source", "target"} or corpus.source != corpus.target:
                raise ValueError(
                    f"train.{number}: objective span_corruption learns from text in "
                    f"one language; give source alone (and weight), files of lines"
                )
        if self.bpe_dropout or self.augment.changes_text:
            key = "bpe_dropout" if self.bpe_dropout else "augment"
            raise ValueError(
                f"{key} does not go with objective span_corruption; remove {key}"
            )
        section, longest = self.span_corruption, self.max_length - 1
        if longest < 2:
            raise ValueError(
                "max_length must be at least 3 with objective span_corruption, for a "
                "gap beside a token"
            )
        sizes = corrupted_lengths(np.array(longest), section.rate, section.mean_length)
        if max(map(int, sizes)) > longest:
            raise ValueError(
                f"span_corruption: a line of max_length {self.max_length} has a target "
                f"of {int(sizes[1]) + 1} tokens; lower rate, or raise mean_length"
            )

    @property
    def has_languages(self) -> bool:
        """Whether a corpus of the training says a language."""
        return any(c.source_language or c.target_language for c in self.train or ())

    def check_languages(self) -> None:
        """Refuses corpora without languages beside others that have them.

        For a new model: that of a folder may have defaults.

        Raises:
            ValueError: naming the first.
        """
        train = enumerate(self.train or ())
        named: list[tuple[str, Corpus | None]] = [(f"train.{i}", c) for i, c in train]
        named += [("validation", self.validation), ("test", self.test)]
        corpora = [(name, corpus) for name, corpus in named if corpus is not None]
        keys = ("source_language", "target_language")
        if not any(getattr(corpus, key) for _, corpus in corpora for key in keys):
            return
        for name, corpus in corpora:
            for key in keys:
                if getattr(corpus, key) is None:
                    raise ValueError(
                        f"data.{name}.{key} is missing, but other corpora have "
                        f"languages; give it"
                    )
