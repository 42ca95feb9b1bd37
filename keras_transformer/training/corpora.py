"""The sentence pairs that a run config names, and their tokenizers."""

import dataclasses
from pathlib import Path

from keras_transformer.data import phrasebook
from keras_transformer.data.corpus import ParallelText
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.corpus import read_tsv
from keras_transformer.data.tokenizer import Tokenizer


@dataclasses.dataclass(frozen=True)
class Corpora:
    """Texts of a run; validation and test where the config names them."""

    train: ParallelText
    validation: ParallelText | None
    test: ParallelText | None


def read_corpora(data):
    """The texts of the `data` section of a `RunConfig`."""
    if data.phrasebook is not None:
        languages = data.phrasebook.split("-")
        splits = ("train", "validation", "test")
        texts = (ParallelText(*phrasebook.load(*languages, split)) for split in splits)
        return Corpora(*texts)
    train = ParallelText([], [])
    for files in data.train:
        text = _read(files)
        train.source.extend(text.source)
        train.target.extend(text.target)
    validation = None if data.validation is None else _read(data.validation)
    test = None if data.test is None else _read(data.test)
    return Corpora(train, validation, test)


def _read(files):
    if files.tsv:
        return read_tsv(files.tsv)
    return read_parallel(files.source, files.target)


def make_tokenizers(section, text, folder):
    """Source and target tokenizer: of the run folder, given, or trained and kept.

    Args:
        section: the `tokenizer` section of a `RunConfig`.
        text: the training text.
        folder: the run folder, which keeps them.

    Returns:
        Two `Tokenizer`s; the same one twice for a shared vocabulary.
    """
    names = ["tokenizer.model"] if section.shared else ["source.model", "target.model"]
    paths = [folder / name for name in names]
    if not all(path.exists() for path in paths):
        for tokenizer, path in zip(_make(section, text), paths, strict=True):
            tokenizer.save(path)
    tokenizers = [Tokenizer.load(path) for path in paths]
    return tokenizers * 2 if section.shared else tokenizers


def _make(section, text):
    """One tokenizer for a shared vocabulary, or two."""
    given = (
        [section.path] if section.shared else [section.source_path, section.target_path]
    )
    if all(given):
        return [Tokenizer.load(Path(path)) for path in given]
    texts = (
        [text.source + text.target] if section.shared else [text.source, text.target]
    )
    return [
        Tokenizer.train(
            lines,
            section.vocabulary_size,
            normalization=section.normalization,
            split_digits=section.split_digits,
        )
        for lines in texts
    ]
