"""Tables of text: of scores, with their signatures beneath."""

from __future__ import annotations

from collections.abc import Mapping
from collections.abc import Sequence

from keras_transformer.evaluation import Score


def table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Rows in columns of one width, the first to the left, numbers to the right.

    Example:

    >>> from keras_transformer.tables import table
    >>> print(table(["run", "BLEU"], [["a", "9.50"], ["longer", "41.00"]]))
    run      BLEU
    a        9.50
    longer  41.00
    """
    lines = [header, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "\n".join(
        "  ".join(
            cell.rjust(width) if number else cell.ljust(width)
            for number, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    )


def of_scores(name: str, rows: Mapping[str, Sequence[Score]]) -> str:
    """The scores of each row by metric, and each signature once.

    Args:
        name: what the rows are, the header of their names.
        rows: the scores of each, by the same metrics.
    """
    scores = next(iter(rows.values()))
    shown = [[key, *(one.rounded for one in found)] for key, found in rows.items()]
    signatures = [f"{score.name}: {score.signature}" for score in scores]
    lines = table([name, *(score.name for score in scores)], shown)
    return "\n".join([lines, *signatures])
