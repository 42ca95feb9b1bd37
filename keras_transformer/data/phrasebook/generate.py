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
import itertools
import random
import re
import sys
from collections import Counter
from collections.abc import Iterator
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import babel.core

from keras_transformer.data.phrasebook import LANGUAGES
from keras_transformer.data.phrasebook import SPLITS
from keras_transformer.data.phrasebook import everyday
from keras_transformer.data.phrasebook import path
from keras_transformer.data.phrasebook.carriers import CARRIERS
from keras_transformer.data.phrasebook.carriers import SHORT_CARRIERS
from keras_transformer.data.phrasebook.carriers import Carrier
from keras_transformer.data.phrasebook.carriers import kind_of
from keras_transformer.data.phrasebook.lookup import character_fours
from keras_transformer.data.phrasebook.lookup import lookup_bleu
from keras_transformer.data.phrasebook.lookup import words
from keras_transformer.data.phrasebook.slots import KINDS
from keras_transformer.files.whole_file import write_whole

#: Sentences of each split by the part of the phrasebook that they are of.
COUNTS = {
    "train": {"carriers": 12_000, "short": 8_000, "everyday": 48_000},
    "validation": {"carriers": 200, "short": 100, "everyday": 200},
    "test": {"carriers": 400, "short": 200, "everyday": 400},
}
#: How often "train" has each fixed phrase, such as "Hello, how are you?".
_TIMES = 20
#: How often at least "train" has each word of an everyday sentence that is held out.
_OFTEN = 20
_MOST_MISSES = 200  # repeats in a row, after which a carrier has no more sentences


@dataclasses.dataclass(frozen=True)
class Sentence:
    """One sentence in all languages.

    Args:
        texts: in the order of `LANGUAGES`.
        part: `"carriers"`, `"short"` or `"everyday"`.
        carrier: index into `CARRIERS` or `SHORT_CARRIERS`; of everyday sentences -1.
        marks: what is held out with the values of its slots (`Kind.mark`), or with the
            pairs of its words (`everyday.Translation`).
    """

    texts: tuple[str, ...]
    part: str
    carrier: int
    marks: tuple[str, ...]


def corpus() -> dict[str, list[Sentence]]:
    """All sentences of each split; only fixed phrases come more than once."""
    seen: set[tuple[str, str]] = set()
    known: Counter[str] = Counter()
    splits = {}
    for split in SPLITS:  # "train" first
        splits[split] = _sentences(split, seen, known)
        if split == "train":
            for sentence in splits[split]:
                known.update(_words(sentence.texts))
    return splits


def table(sentences: Sequence[Sentence]) -> bytes:
    """The content of a file: one line a sentence, below the names of the languages."""
    rows = [LANGUAGES, *(sentence.texts for sentence in sentences)]
    return "".join("\t".join(row) + "\n" for row in rows).encode()


def _sentences(
    split: str, seen: set[tuple[str, str]], known: Counter[str]
) -> list[Sentence]:
    counts = COUNTS[split]
    parts = {"carriers": CARRIERS, "short": SHORT_CARRIERS}
    sentences: list[Sentence] = []
    for part, carriers in parts.items():
        whole, rest = divmod(counts[part], len(carriers))
        for index, carrier in enumerate(carriers):
            stream = random.Random(f"{split} {part} {index}")
            count = whole + (index < rest)
            for texts, marks in _of_carrier(carrier, split, count, stream, seen):
                sentences.append(Sentence(texts, part, index, marks))
    # More than are needed: what is held out joins words that "train" has often.
    drawn = everyday.sentences(split, 10 * counts["everyday"], split)
    often = (
        translation
        for translation in drawn
        if split == "train"
        or all(known[word] >= _OFTEN for word in _words(translation.texts))
    )
    for translation in itertools.islice(often, counts["everyday"]):
        times = _TIMES if split == "train" and translation.kind == "phrase" else 1
        sentence = Sentence(translation.texts, "everyday", -1, translation.marks)
        sentences += [sentence] * times
    return _shuffled(sentences, random.Random(split))


def _words(texts: Sequence[str]) -> Iterator[str]:
    """The words of a sentence, each with its language."""
    for language, text in zip(LANGUAGES, texts, strict=True):
        for word in re.findall(r"[^\W\d_]+", text):
            yield f"{language} {word}"


def _of_carrier(
    carrier: Carrier,
    split: str,
    count: int,
    stream: random.Random,
    seen: set[tuple[str, str]],
) -> Iterator[tuple[tuple[str, ...], tuple[str, ...]]]:
    """So many different sentences of a carrier, or as many as it has, and marks."""
    misses = 0
    while count and misses < _MOST_MISSES:
        values = _draw(carrier, split, stream)
        texts = tuple(_text(carrier, values, language) for language in LANGUAGES)
        marked = set(zip(LANGUAGES, texts, strict=True))
        if seen & marked:
            misses += 1
            continue
        seen |= marked
        count, misses = count - 1, 0
        marks = tuple(KINDS[kind_of(slot)].mark(values[slot]) for slot in carrier.slots)
        yield texts, marks


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
