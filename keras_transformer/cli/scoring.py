"""Shared parts of the commands that score translations."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated
from typing import Any

import typer

References = Annotated[
    list[Path],
    typer.Option(
        "--reference",
        metavar="FILE",
        help="A right translation of each line, plain or packed. May be repeated: each "
        "line then has several.",
    ),
]
Tokenize = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help="How BLEU splits text into words, as in sacreBLEU; none for text that is "
        "tokenized; or moses-de, Moses' tokenizer for a language.",
    ),
]
Lowercase = Annotated[
    bool,
    typer.Option(
        "--lowercase",
        help="BLEU and chrF ignore case. With --tokenize moses-de, what papers report "
        "as lower-cased tokenized BLEU (lc.tok).",
    ),
]
WordOrder = Annotated[
    int,
    typer.Option(
        "--chrf-word-order",
        metavar="N",
        min=0,
        help="chrF counts sequences of up to N words, too; 2 is chrF++.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print a list of JSON objects.")]


def print_json(rows: Iterable[dict[str, Any]]) -> None:
    """Prints one list, readable."""
    print(json.dumps(list(rows), indent=2, ensure_ascii=False))
