"""A corpus of few lengths: numbers, and the same read backwards.

With each digit a token, two lengths are two shapes, and little is compiled.
"""

import random

VOCABULARY_SIZE = 270  # bytes, special ids and digits


def pairs(count, seed=1):
    """`[(source, target)]`, of four or seven digits."""
    numbers = random.Random(seed)
    lines = [str(numbers.randrange(10**n, 10 ** (n + 1))) for n in (3, 6) * count]
    return [(line, line[::-1]) for line in lines[:count]]


def write_files(folder, name, count, seed=1):
    """Writes `<name>.en` and `<name>.de`."""
    for column, language in enumerate(("en", "de")):
        text = "".join(f"{pair[column]}\n" for pair in pairs(count, seed))
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def write_tsv(path, count, seed=1):
    """Writes a file of `source<TAB>target` lines."""
    text = "".join(f"{source}\t{target}\n" for source, target in pairs(count, seed))
    path.write_text(text, encoding="utf-8")
