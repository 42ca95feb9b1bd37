"""The embedded parallel corpus: English, German and French sentences.

Everyday sentences from a grammar, and sentences about travelling, shopping, offices,
doctors and the weather with dates, prices and numbers; README.md beside this file says
how they are made. The texts are committed, so that no library update changes them:
reading needs nothing but the standard library.

Spaces are CLDR's characters as they are: a no-break space (U+00A0) before a percent
sign or a euro sign in German and French, a narrow one (U+202F) in French thousands and
in "9:05 AM". `str.split` and sacreBLEU take all of them for spaces.
"""

from __future__ import annotations

import gzip
from pathlib import Path

from keras_transformer.errors import InputError

__all__ = ["LANGUAGES", "SPLITS", "load", "path"]

LANGUAGES = ("en", "de", "fr")
SPLITS = ("train", "validation", "test")


def path(split: str) -> Path:
    """The file of a split: gzipped, tab-separated, the languages in its first line.

    Raises:
        InputError: an unknown split.
    """
    if split not in SPLITS:
        raise InputError(
            f"unknown split {split!r} of the phrasebook; use one of {', '.join(SPLITS)}"
        )
    return Path(__file__).with_name(f"{split}.tsv.gz")


def load(
    source_language: str, target_language: str, split: str
) -> tuple[list[str], list[str]]:
    """Reads one split of the phrasebook in two of its languages.

    But for fixed phrases, which `"train"` repeats, no sentence comes twice in any
    language. A sentence of `"validation"` and `"test"` has dates, amounts and so on, or
    pairs of words, that `"train"` has nowhere in the same role.

    Args:
        source_language: `"en"`, `"de"` or `"fr"`.
        target_language: another one of them.
        split: `"train"`, `"validation"` or `"test"`.

    Returns:
        The source sentences and, in the same order, their translations.

    Raises:
        InputError: an unknown language or split, or twice the same language.

    Example:

    >>> from keras_transformer.data import phrasebook
    >>> sources, targets = phrasebook.load("en", "de", "test")
    >>> len(sources), len(targets)
    (1000, 1000)

    Source: Unicode CLDR (https://cldr.unicode.org), with Babel and num2words.
    """
    for language in (source_language, target_language):
        if language not in LANGUAGES:
            raise InputError(
                f"the phrasebook has no language {language!r}; use two of "
                f"{', '.join(LANGUAGES)}"
            )
    if source_language == target_language:
        raise InputError(
            f"source and target language are both {source_language!r}; use two "
            f"different ones of {', '.join(LANGUAGES)}"
        )
    # Only line feeds end a line: the texts may hold other separators of Unicode.
    with gzip.open(path(split), "rt", encoding="utf-8", newline="\n") as file:
        header, *rows = (line.rstrip("\n").split("\t") for line in file)
    columns = dict(zip(header, zip(*rows, strict=True), strict=True))
    return list(columns[source_language]), list(columns[target_language])
