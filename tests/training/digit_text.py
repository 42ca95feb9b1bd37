"""A corpus of few lengths: numbers, and the same read backwards.

With each digit a token, two lengths are two shapes, and little is compiled.
"""

import random

VOCABULARY_SIZE = 270  # bytes, special ids and digits


def pairs(count, seed=1, digits=(4, 7)):
    """`[(source, target)]`, of four or seven digits in turn."""
    numbers = random.Random(seed)
    lines = [str(numbers.randrange(10 ** (n - 1), 10**n)) for n in digits * count]
    return [(line, line[::-1]) for line in lines[:count]]


def write_files(folder, name, count, seed=1, **options):
    """Writes `<name>.en` and `<name>.de`."""
    for column, language in enumerate(("en", "de")):
        text = "".join(f"{pair[column]}\n" for pair in pairs(count, seed, **options))
        (folder / f"{name}.{language}").write_text(text, encoding="utf-8")


def write_tsv(path, count, seed=1, **options):
    """Writes a file of `source<TAB>target` lines."""
    rows = pairs(count, seed, **options)
    text = "".join(f"{source}\t{target}\n" for source, target in rows)
    path.write_text(text, encoding="utf-8")
