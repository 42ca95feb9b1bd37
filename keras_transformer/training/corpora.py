"""Corpora of a run: the sentence pairs of its config, and their tokenizers."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import TypeAlias
from typing import TypedDict
from typing import cast

from keras_transformer.config.languages import Direction
from keras_transformer.config.languages import Languages
from keras_transformer.data import phrasebook
from keras_transformer.data.augmentation import Augmentation
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.buckets import Share
from keras_transformer.data.columns import FORMATS
from keras_transformer.data.columns import Columns
from keras_transformer.data.corpus import CorpusFiles
from keras_transformer.data.corpus import read_shards
from keras_transformer.data.corpus_tags import tagged
from keras_transformer.data.corpus_tags import untagged
from keras_transformer.data.encoded_corpus import encode_corpora
from keras_transformer.data.encoding import PairEncoder
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.filters import Filters
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.language_tags import tag
from keras_transformer.data.line_reader import FileRecord
from keras_transformer.data.line_reader import record_of
from keras_transformer.data.own_tokenizers import loaded_class
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.parallel_text import spread
from keras_transformer.data.phrasebook import vocabulary
from keras_transformer.data.span_corruption import SpanCorruption
from keras_transformer.data.span_corruption import sentinel_symbols
from keras_transformer.data.text_noise import CASINGS
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_files import tokenizer_files
from keras_transformer.data.translated_corpus import TranslatedCorpus
from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import MOST_BYTES
from keras_transformer.files.plain_file import plain_file
from keras_transformer.training.config.data_section import TRAINING_OPTIONS
from keras_transformer.training.config.data_section import VOCABULARY_SIZE
from keras_transformer.training.config.data_section import Corpus
from keras_transformer.training.config.data_section import DataSection
from keras_transformer.training.config.data_section import TokenizerSection
from keras_transformer.training.config.data_section import TrainingCorpus

_SAMPLE = 1_000_000  # maximum number of pairs to train a tokenizer on

#: The fields of the `FileRecord`s of each text.
Fingerprint: TypeAlias = dict[str, list[dict[str, Any]]]


class LanguageCodes(TypedDict, total=False):
    """The languages of a text, where it has them, as arguments."""

    source_language: str
    target_language: str


@dataclasses.dataclass(frozen=True)
class TrainingPairs:
    """The training text as ids, with the matching arguments of `TokenBatches`.

    Args:
        pairs: the sentence pairs, in their plain segmentation.
        report: the filter report.
        shares: the number of pairs and the weight of each corpus.
        digest: the digest of the ids, where they come from a cache with checksums;
            otherwise None.
        bpe_dropout: the `BPEDropout`, or None without.
        augment: the `Augmentation`, or None without.
        span_corruption: the `SpanCorruption`, or None for another objective.
    """

    pairs: EncodedPairs
    report: CorpusReport
    shares: list[Share]
    digest: str | None
    bpe_dropout: BPEDropout | None
    augment: Augmentation | None
    span_corruption: SpanCorruption | None = None


def read_test(data: DataSection) -> ParallelText | None:
    """The test text of a run; None where the config has none.

    Raises:
        InputError: where a file of it is faulty.
    """
    if data.phrasebook is None:
        return _read(data.test)
    source, target = data.phrasebook.split("-")
    return ParallelText(*phrasebook.load(source, target, "test"))


class Corpora:
    """The texts of a run.

    The training text is streamed, never held in memory as a whole, except for the
    phrasebook.

    Args:
        data: the `data` section of a `RunConfig`.

    Attributes:
        validation: the text in memory; None where the config has none.
        test: see `validation`.

    Raises:
        InputError: where a file of `validation` or `test`, or a manifest, is faulty.
    """

    def __init__(self, data: DataSection) -> None:
        self._data = data
        self._prefixes = {
            part: corpus.prefix for part, corpus in _parts(data) if corpus.prefix
        }
        self._records: dict[str, FileRecord] = {}
        self._translated = [
            TranslatedCorpus(corpus.manifest)
            for corpus in data.train or ()
            if corpus.manifest
        ]
        self._train = tuple(map(_files, data.train or ()))
        if data.phrasebook is None:
            self.validation, self.test = _read(data.validation), _read(data.test)
        else:
            source, target = data.phrasebook.split("-")
            self._phrases, self.validation, self.test = (
                ParallelText(*phrasebook.load(source, target, split))
                for split in phrasebook.SPLITS
            )

    def sample(self) -> ParallelText:
        """Training text of a tokenizer: all pairs, or a million spread evenly.

        Of the sources as many are in another case as `data.augment` says.
        """
        text = self._plain_sample()
        casings = self._data.augment.casings
        if not any(casings.values()):
            return text
        return ParallelText(spread_casings(text.source, casings), text.target)

    def _plain_sample(self) -> ParallelText:
        if self._data.phrasebook is not None:
            return self._phrases
        texts = (
            _prefixed(text, corpus)
            for corpus, files in zip(self._data.train or (), self._train, strict=True)
            for text in read_shards(files.shards())
        )
        return spread(texts, _SAMPLE)

    @property
    def symbols(self) -> list[str]:
        """The symbols that a tokenizer of the sources has beside the training text.

        The tags of target languages and of corpora, or sentinels.
        """
        corpora = self._data.train or ()
        if self._data.corrupts_spans:
            section = self._data.span_corruption
            return sentinel_symbols(section.num_sentinels(self._data.max_length))
        codes = [c.target_language for c in corpora if c.target_language]
        tags = [corpus.tag for corpus in corpora if corpus.tag]
        return list(dict.fromkeys([*map(tag, codes), *tags]))

    def known_words(self) -> KnownWords | None:
        """The source words, where the text is a closed language (the phrasebook).

        None for other texts: models may handle words that they have not seen.
        """
        if self._data.phrasebook is None:
            return None
        return vocabulary.known_words(self._data.phrasebook.split("-")[0])

    def encode(
        self,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        folder: Path,
        longest: int | None = None,
        say: Callable[[str], None] = lambda text: None,
        *,
        split_symbols: bool = False,
        languages: Languages | None = None,
        source_end: bool = True,
    ) -> TrainingPairs:
        """The training text as ids; encoded once, then memory-mapped from the cache.

        Args:
            source_tokenizer: the tokenizer of the source.
            target_tokenizer: of the target; the same for a shared vocabulary.
            folder: the cache folder where the config has none.
            longest: the maximum number of tokens of a row under `bpe_dropout`, with the
                end token: the learned positions of the model; None for no limit.
            say: a function that receives lines of progress.
            split_symbols: an option of `bpe_dropout`, see `BPEMerges`.
            languages: of a multilingual model.
            source_end: whether a source ends with the end token, where a corpus has a
                tag.

        Raises:
            InputError: where a file is faulty, a corpus has no usable pair, a language
                or a tag is missing or not known, or the cache cannot be written.
        """
        data, tokenizers = self._data, (source_tokenizer, target_tokenizer)
        if languages is not None and languages.prefixes and self._prefixes:
            raise InputError(
                f"{next(iter(self._prefixes))}.prefix does not go with this model, "
                f"which is told the languages in the text of the source; remove it"
            )
        filters = data.filters.model_dump()
        corruption = self._span_corruption(tokenizers, languages)
        if corruption is not None:  # a gap, and a token beside it
            filters["min_length"] = max(filters["min_length"], 2)
            languages = None
        dropout = None
        if data.bpe_dropout:
            dropout = BPEDropout(
                *tokenizers, data.bpe_dropout, longest, split_symbols=split_symbols
            )
        augment = self._augmentation(source_tokenizer, longest, languages)
        if data.phrasebook is not None:
            pairs, report = encode_pairs(
                self._phrases,
                *tokenizers,
                data.max_length,
                **filters,
                languages=languages,
            )
            shares = [(len(pairs), 1.0)]
            return TrainingPairs(pairs, report, shares, None, dropout, augment)
        encoded = encode_corpora(
            data.cache or folder,
            self._train,
            PairEncoder(*tokenizers, Filters(data.max_length, **filters)),
            workers=None if data.workers == "all" else data.workers,
            say=say,
            records=self._records,
            directions=self._directions(languages, tokenizers, source_end),
        )
        if len(self._train) > 1:
            for files, report in zip(self._train, encoded.reports, strict=True):
                say(f"{files}: {report}")
        counts = [report.kept for report in encoded.reports]
        shares = list(zip(counts, self._weights(counts), strict=True))
        return TrainingPairs(
            encoded.pairs,
            encoded.report,
            shares,
            encoded.digest,
            dropout,
            augment,
            corruption,
        )

    def _span_corruption(
        self, tokenizers: tuple[Tokenizer, Tokenizer], languages: Languages | None
    ) -> SpanCorruption | None:
        """What makes pairs of the text in one language; None for another objective."""
        data, (tokenizer, target_tokenizer) = self._data, tokenizers
        if not data.corrupts_spans:
            return None
        if target_tokenizer.content != tokenizer.content:
            raise InputError(
                "data.objective span_corruption needs one vocabulary for source and "
                "target, and model.folder has two; choose another model"
            )
        parts: set[str] = set()
        if languages is not None:
            parts = {*languages.source_layout, *languages.target_layout}
        if parts & {"source", "target"}:
            raise InputError(
                "data.objective span_corruption does not go with a model that is told "
                "languages by ids; choose another model"
            )
        section = data.span_corruption
        count = section.num_sentinels(data.max_length)
        try:
            return SpanCorruption(tokenizer, count, section.rate, section.mean_length)
        except InputError:
            raise InputError(
                f"data.objective span_corruption: the tokenizer lacks sentinels; lines "
                f"of data.max_length {data.max_length} need <extra_id_0> to "
                f"<extra_id_{count - 1}>; train a tokenizer with them "
                f"(tokenizer.vocabulary_size does), or lower data.max_length"
            ) from None

    def _augmentation(
        self, tokenizer: Tokenizer, longest: int | None, languages: Languages | None
    ) -> Augmentation | None:
        """The augmentation of the sources; None without."""
        section, most = self._data.augment, self._data.max_length
        if not any(section.model_dump().values()):
            return None
        if languages is not None and languages.prefixes:
            raise InputError(
                "data.augment does not go with this model, which is told the languages "
                "in the text of the source; remove data.augment"
            )
        return Augmentation(
            tokenizer, section.casings, section.typos, min(most, longest or most)
        )

    def _directions(
        self,
        languages: Languages | None,
        tokenizers: tuple[Tokenizer, Tokenizer],
        source_end: bool,
    ) -> list[Direction] | None:
        """The direction of each corpus; None without languages, tags and prefixes."""
        corpora, ids = self._data.train or (), tokenizers[1].special_ids
        around = any(corpus.tag or corpus.prefix for corpus in corpora)
        if languages is None and not around:
            return None
        directions = []
        for number, corpus in enumerate(corpora):
            codes = corpus.source_language, corpus.target_language
            try:
                direction = untagged(ids, source_end)
                if languages is not None:
                    direction = languages.direction(ids, *codes)
                if corpus.prefix:
                    direction = dataclasses.replace(direction, prefix=corpus.prefix)
                if corpus.tag:
                    direction = tagged(direction, corpus.tag, tokenizers[0])
            except InputError as error:
                raise InputError(f"data.train.{number}: {error}") from None
            directions.append(direction)
        return directions

    def _weights(self, counts: Sequence[int]) -> list[float]:
        """The sampling weight of each corpus, by `weight` and `temperature`.

        `counts` are the numbers of their pairs, without those that were filtered out.
        """
        corpora, temperature = self._data.train or (), self._data.temperature
        weights = [corpus.weight for corpus in corpora]
        if temperature is None:
            return weights
        pairs = [(c.source_language, c.target_language) for c in corpora]
        sizes = [count * weight for count, weight in zip(counts, weights, strict=True)]
        factors = temperature_factors(pairs, sizes, temperature)
        return [w * factor for w, factor in zip(weights, factors, strict=True)]

    def fingerprint(self, known: Fingerprint | None = None) -> Fingerprint:
        """The current records of the files, as JSON values.

        Args:
            known: an earlier fingerprint: files with unchanged size and times are not
                read. `encode` then accepts only such texts.

        Raises:
            InputError: where a file cannot be read, or is not that of its manifest.
        """
        records = [
            FileRecord(**file) for part in (known or {}).values() for file in part
        ]
        untouched = {record.path: record for record in records if record.is_untouched()}
        current = {
            part: [untouched.get(str(path)) or record_of(path) for path in paths]
            for part, paths in self._paths().items()
        }
        self._records = {file.path: file for file in current.get("train", ())}
        for corpus in self._translated:
            corpus.check(self._records)
        return {
            part: [dataclasses.asdict(file) for file in files]
            for part, files in current.items()
        }

    def _paths(self) -> dict[str, list[Path]]:
        if self._data.phrasebook is not None:
            return {split: [phrasebook.path(split)] for split in phrasebook.SPLITS}
        held_out = {"validation": self._data.validation, "test": self._data.test}
        parts = {"train": self._train} | {
            part: (_files(corpus),) for part, corpus in held_out.items() if corpus
        }
        return {
            part: [path for files in corpora for path in files.paths]
            for part, corpora in parts.items()
        }


def spread_casings(lines: Sequence[str], casings: Mapping[str, float]) -> list[str]:
    """The lines, a share of them in each case, spread evenly.

    Args:
        lines: the lines.
        casings: the share of each of `CASINGS`.

    Example:

    >>> from keras_transformer.training.corpora import spread_casings
    >>> spread_casings(["a b", "c", "d", "e"], {"upper": 0.25, "title": 0.25})
    ['a b', 'c', 'd', 'E']
    """
    changed, due = list(lines), dict.fromkeys(casings, 0.0)
    for number, line in enumerate(lines):
        for name, share in casings.items():
            due[name] += share
        name = max(due, key=due.__getitem__)
        if due[name] >= 1 - 1e-9:
            changed[number] = CASINGS[name](line)
            due[name] -= 1
    return changed


def temperature_factors(
    groups: Sequence[Hashable], sizes: Sequence[float], temperature: float
) -> list[float]:
    """How much more often than by its size each corpus is seen.

    The corpora of a group, such as a pair of languages, together are seen in proportion
    to n^(1/T), where n is the sum of their sizes; all together as often as before.

    Args:
        groups: the group of each corpus.
        sizes: the pairs that an epoch would see of each.
        temperature: T, at least 1.

    Example:

    >>> from keras_transformer.training.corpora import temperature_factors
    >>> temperature_factors(["en-de", "en-fr"], [900, 100], 2.0)
    [0.8333333333333334, 2.5]

    Reference: Arivazhagan et al., 2019, https://arxiv.org/abs/1907.05019, section 4.2.
    """
    totals: dict[Hashable, float] = {}
    for group, size in zip(groups, sizes, strict=True):
        totals[group] = totals.get(group, 0.0) + size
    shares = {group: size ** (1 / temperature) for group, size in totals.items()}
    scale = sum(totals.values()) / sum(shares.values())
    return [scale * shares[group] / totals[group] for group in groups]


def languages_of(corpus: Corpus | None) -> LanguageCodes:
    """The languages that a corpus names, as arguments."""
    codes = LanguageCodes()
    if corpus is None:
        return codes
    if corpus.source_language is not None:
        codes["source_language"] = corpus.source_language
    if corpus.target_language is not None:
        codes["target_language"] = corpus.target_language
    return codes


def changes(before: Fingerprint, now: Fingerprint) -> list[str]:
    """A line per changed file: `data.train: a.en: 9 lines, ... -> 8 lines, ...`."""
    lines = []
    for part in {**before, **now}:
        files = itertools.zip_longest(before.get(part, ()), now.get(part, ()))
        for pair in files:
            old, new = (FileRecord(**file) if file else None for file in pair)
            if not (old and new and old.same_content(new)):
                path = (pair[1] or pair[0])["path"]
                lines.append(f"data.{part}: {path}: {old} -> {new}")
    return lines


def make_tokenizers(
    section: TokenizerSection,
    sample: Callable[[], ParallelText],
    folder: Path,
    symbols: Sequence[str] = (),
) -> list[Tokenizer]:
    """Source and target tokenizer: from the run folder, from files, or trained.

    Args:
        section: the `tokenizer` section of a `RunConfig`.
        sample: a function that returns the text to train on, such as `Corpora.sample`.
        folder: the run folder, which stores them.
        symbols: what a tokenizer of the source reserves, where it is trained.

    Returns:
        Two `Tokenizer`s; the same object twice for a shared vocabulary.

    Raises:
        InputError: where a file is faulty or not the one that the run began with, or
            the text is too small for the vocabulary.
    """
    paths = _tokenizer_paths(section, folder)
    if not all(path.exists() for path in paths):
        new_tokenizers = _make(section, sample, symbols)
        for tokenizer, path in zip(new_tokenizers, paths, strict=True):
            tokenizer.save(path)
    tokenizers = load_tokenizers(section, folder)
    # One origin for a shared vocabulary, none for trained tokenizers.
    for origin, tokenizer in zip(_given_paths(section), tokenizers, strict=False):
        if origin.exists() and _from_file(section, origin).content != tokenizer.content:
            raise InputError(
                f"{folder} was begun with another tokenizer than {origin}; choose "
                f"another output, or go back to that tokenizer"
            )
    return tokenizers


def load_tokenizers(section: TokenizerSection, folder: Path) -> list[Tokenizer]:
    """The tokenizers that `make_tokenizers` stored in a run folder.

    Raises:
        InputError: where a file is missing or faulty.
    """
    tokenizers = [
        Tokenizer.load(plain_file(folder, path.name, MOST_BYTES))
        for path in _tokenizer_paths(section, folder)
    ]
    return tokenizers * 2 if section.shared else tokenizers


def _tokenizer_paths(section: TokenizerSection, folder: Path) -> list[Path]:
    names = dict.fromkeys(tokenizer_files(bool(section.shared)))
    return [folder / name for name in names]


def _given_paths(section: TokenizerSection) -> list[Path]:
    paths = (section.path, section.source_path, section.target_path)
    return [path for path in paths if path is not None]


def _make(
    section: TokenizerSection,
    sample: Callable[[], ParallelText],
    symbols: Sequence[str],
) -> list[Tokenizer]:
    """One tokenizer for a shared vocabulary, or two."""
    if paths := _given_paths(section):
        return [_from_file(section, path) for path in paths]
    text = sample()
    if section.shared:
        return [_train(section, text.source + text.target, "", symbols)]
    return [
        _train(section, text.source, "source", symbols),
        _train(section, text.target, "target", ()),
    ]


def _class(section: TokenizerSection) -> type[Tokenizer]:
    """The class of the tokenizers.

    Raises:
        InputError: where its module is not loaded, or has no such class.
    """
    if section.kind is None:
        return Tokenizer
    try:
        found: type[Tokenizer] = loaded_class(section.kind, Tokenizer)
    except InputError as error:
        raise InputError(f"tokenizer.kind: {error}") from None
    return found


def _from_file(section: TokenizerSection, path: Path) -> Tokenizer:
    """The tokenizer of a file, of the class that the config or the file names."""
    tokenizer = Tokenizer.load(path)
    wanted = _class(section)
    if type(tokenizer) is Tokenizer:
        return wanted(tokenizer.model)
    if wanted not in (Tokenizer, type(tokenizer)):
        raise InputError(
            f"tokenizer.kind is {section.kind}, but {path} is a tokenizer of the class "
            f"{type(tokenizer).__module__}.{type(tokenizer).__name__}; remove the kind"
        )
    return tokenizer


def _train(
    section: TokenizerSection, lines: list[str], side: str, symbols: Sequence[str]
) -> Tokenizer:
    """A tokenizer of one side, or of both where `side` is empty."""
    key = "vocabulary_size"
    side_size = getattr(section, f"{side}_{key}") if side else None
    keys = {"normalization", *TRAINING_OPTIONS}
    options = section.model_dump(include=keys, exclude_none=True)
    try:
        return _class(section).train(
            lines,
            side_size or section.vocabulary_size or VOCABULARY_SIZE,
            reserved_symbols=[
                symbol
                for symbol in symbols
                if symbol not in (section.user_defined_symbols or ())
            ],
            **options,
        )
    except InputError as error:
        name = f"tokenizer.{side}_{key}" if side_size else f"tokenizer.{key}"
        message = str(error).replace(key, name, 1)
        raise InputError(f"{side}: {message}" if side else message) from None


def paths_of(corpus: Corpus) -> list[Path]:
    """The files of a corpus."""
    return list(_files(corpus).paths)


def training_files(data: DataSection) -> list[Path]:
    """The files of the training text, in order."""
    if data.phrasebook is not None:
        return [phrasebook.path("train")]
    return [path for corpus in data.train or () for path in paths_of(corpus)]


def test_records(data: DataSection) -> list[dict[str, Any]]:
    """The current records of the files of the test text, as JSON values.

    Raises:
        InputError: where a file cannot be read.
    """
    if data.phrasebook is not None:
        paths = [phrasebook.path("test")]
    else:
        paths = paths_of(data.test) if data.test else []
    return [dataclasses.asdict(record_of(path)) for path in paths]


def source_lines(data: DataSection) -> Iterator[str]:
    """The source of the training text, line by line, before any filter.

    Raises:
        InputError: where a file is faulty.
    """
    if data.phrasebook is not None:
        source, target = data.phrasebook.split("-")
        yield from phrasebook.load(source, target, "train")[0]
        return
    for corpus in data.train or ():
        for text in read_shards(_files(corpus).shards()):
            yield from text.source


def _files(corpus: Corpus) -> CorpusFiles:
    if isinstance(corpus, TrainingCorpus) and corpus.manifest:
        translated = TranslatedCorpus(corpus.manifest)
        return CorpusFiles(source=translated.source, target=translated.target)
    sides = ("source", "target", *FORMATS)
    paths = {side: getattr(corpus, side) or () for side in sides}
    columns = cast(Columns | None, corpus.columns)  # the section has checked them
    return CorpusFiles(**paths, columns=columns)


def _parts(data: DataSection) -> Iterator[tuple[str, Corpus]]:
    """The corpora of a config, with the names of their places."""
    for number, corpus in enumerate(data.train or ()):
        yield f"data.train.{number}", corpus
    for part in ("validation", "test"):
        if (held_out := getattr(data, part)) is not None:
            yield f"data.{part}", held_out


def _read(corpus: Corpus | None) -> ParallelText | None:
    if corpus is None:
        return None
    text = ParallelText.concatenate(read_shards(_files(corpus).shards()))
    return _prefixed(text, corpus)


def _prefixed(text: ParallelText, corpus: Corpus) -> ParallelText:
    """The text with the prefix of its corpus."""
    if not corpus.prefix:
        return text
    return ParallelText([corpus.prefix + line for line in text.source], text.target)
