"""Makes the phrasebook: `python -m keras_transformer.data.phrasebook.generate`.

Needs the extra `phrasebook` (Babel and num2words). Every draw comes from a generator
that is seeded by the split and the carrier, so the same versions of both libraries
always make the same corpus.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import gzip
import io
import random
import sys
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import babel.core

from keras_transformer.data.phrasebook import LANGUAGES
from keras_transformer.data.phrasebook import SPLITS
from keras_transformer.data.phrasebook import path
from keras_transformer.data.phrasebook.carriers import CARRIERS
from keras_transformer.data.phrasebook.carriers import Carrier
from keras_transformer.data.phrasebook.carriers import kind_of
from keras_transformer.data.phrasebook.lookup import character_fours
from keras_transformer.data.phrasebook.lookup import lookup_bleu
from keras_transformer.data.phrasebook.lookup import words
from keras_transformer.data.phrasebook.slots import KINDS
from keras_transformer.files.whole_file import write_whole

COUNTS = {"train": 33_000, "validation": 500, "test": 1000}


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence in all languages.

    Args:
        texts: in the order of `LANGUAGES`.
        carrier: index into `CARRIERS`.
        marks: what is held out with the values of its slots (`Kind.mark`).
    """

    texts: tuple[str, ...]
    carrier: int
    marks: tuple[str, ...]


def corpus() -> dict[str, list[Sentence]]:
    """All sentences of each split; in no language does a text come twice."""
    seen: set[tuple[str, str]] = set()
    return {split: _sentences(split, seen) for split in SPLITS}


def table(sentences: Sequence[Sentence]) -> bytes:
    """The content of a file: one line a sentence, below the names of the languages."""
    rows = [LANGUAGES, *(sentence.texts for sentence in sentences)]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def _sentences(split: str, seen: set[tuple[str, str]]) -> list[Sentence]:
    rounds: list[list[Sentence]] = []
    whole, rest = divmod(COUNTS[split], len(CARRIERS))
    for index in range(len(CARRIERS)):
        count = whole + (index < rest)
        for number, sentence in enumerate(_of_carrier(index, split, count, seen)):
            if number == len(rounds):
                rounds.append([])
            rounds[number].append(sentence)
    # Each round holds every carrier once, so any part of the file is a fair sample.
    stream = random.Random(split)
    return [sentence for each in rounds for sentence in _shuffled(each, stream)]


def _of_carrier(
    index: int, split: str, count: int, seen: set[tuple[str, str]]
) -> list[Sentence]:
    stream = random.Random(f"{split} {index}")
    carrier = CARRIERS[index]
    sentences: list[Sentence] = []
    while len(sentences) < count:
        values = _draw(carrier, split, stream)
        texts = tuple(_text(carrier, values, language) for language in LANGUAGES)
        marked = set(zip(LANGUAGES, texts, strict=True))
        if seen & marked:
            continue
        seen |= marked
        marks = tuple(KINDS[kind_of(slot)].mark(values[slot]) for slot in carrier.slots)
        sentences.append(Sentence(texts, index, marks))
    return sentences


def _draw(carrier: Carrier, split: str, stream: random.Random) -> dict[str, Any]:
    """A value for each slot; several of one kind differ and ascend by number."""
    values: dict[str, Any] = {}
    for kind in dict.fromkeys(kind_of(slot) for slot in carrier.slots):
        slots = sorted(slot for slot in carrier.slots if kind_of(slot) == kind)
        choices = _choices(kind, split)
        drawn: set[int] = set()
        while len(drawn) < len(slots):
            # Of all methods, Python promises only `random` to stay as it is.
            drawn.add(int(stream.random() * len(choices)))
        ordered = sorted(drawn)
        values |= {
            slot: choices[number] for slot, number in zip(slots, ordered, strict=True)
        }
    return values


@functools.cache
def _choices(kind: str, split: str) -> list[Any]:
    return KINDS[kind].values_of(split)


@functools.cache
def _rendered(kind: str, value: Any, language: str) -> str:
    return KINDS[kind].text(value, language)


def _text(carrier: Carrier, values: dict[str, Any], language: str) -> str:
    return carrier.templates[language].format(
        **{
            slot: _rendered(kind_of(slot), value, language)
            for slot, value in values.items()
        }
    )


def _shuffled(sentences: list[Sentence], stream: random.Random) -> list[Sentence]:
    keys = [(stream.random(), number) for number in range(len(sentences))]
    return [sentences[number] for _, number in sorted(keys)]


# === Files ===


def _write(file: Path, content: bytes) -> None:
    packed = io.BytesIO()
    # Without a name and a time, equal contents make equal files.
    with gzip.GzipFile("", "wb", 9, packed, mtime=0) as stream:
        stream.write(content)
    write_whole(file, packed.getvalue())


def _is_written(file: Path, content: bytes) -> bool:
    # Unpacked, because another version of zlib may pack the same otherwise.
    return file.exists() and gzip.decompress(file.read_bytes()) == content


def report(sentences: dict[str, list[Sentence]]) -> str:
    """Versions, counts, mean lengths in words and what a lookup scores, by line."""
    lines = [
        f"Babel {version('Babel')} (CLDR {babel.core.get_cldr_version()}), "
        f"num2words {version('num2words')}, {len(CARRIERS)} carriers"
    ]
    columns: dict[str, dict[str, list[str]]] = {}
    for split, each in sentences.items():
        texts = zip(*(sentence.texts for sentence in each), strict=True)
        columns[split] = dict(zip(LANGUAGES, map(list, texts), strict=True))
        means = ", ".join(
            f"{language} {sum(len(text.split()) for text in column) / len(column):.2f}"
            for language, column in columns[split].items()
        )
        lines.append(f"{split}: {len(each)} sentences, mean words {means}")
    for source, target in (("en", "de"), ("en", "fr"), ("de", "en"), ("fr", "en")):
        train, test = (
            (columns[split][source], columns[split][target])
            for split in ("train", "test")
        )
        for features in (character_fours, words):
            score = lookup_bleu(train, test, features)
            name = features.__name__.replace("_", " ")
            lines.append(f"lookup by {name}, {source}-{target}: BLEU {score:.2f}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Writes the files, or checks them; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m keras_transformer.data.phrasebook.generate",
        description="Makes the phrasebook from CLDR data, num2words and our carriers.",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=path("train").parent,
        help="the folder to write to; default: the package's own",
    )
    parser.add_argument(
        "--check",
        action="store_true",
        help="write nothing; say whether the files in the folder are the same",
    )
    options = parser.parse_args(arguments)
    sentences = corpus()
    if options.check:
        different = [
            split
            for split, each in sentences.items()
            if not _is_written(options.output / path(split).name, table(each))
        ]
        print(f"different: {', '.join(different)}" if different else "equal")
        return 1 if different else 0
    options.output.mkdir(parents=True, exist_ok=True)
    for split, each in sentences.items():
        _write(options.output / path(split).name, table(each))
    print(report(sentences))
    return 0


if __name__ == "__main__":
    sys.exit(main())
