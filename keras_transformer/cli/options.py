"""Arguments and options of the commands; most are shared by several."""

from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import formats

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model folder, such as runs/NAME/averaged."),
]
SourceFile = Annotated[
    Path,
    typer.Option(
        "--source", metavar="FILE", help="Lines to translate, plain or packed."
    ),
]
Examples = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Lines for the warm-up requests and the card."),
]
Format = Annotated[
    formats.Format, typer.Option(metavar="text|jsonl", help="See above.")
]
Prefixes = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="How the translation of each line begins."),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL", help="Translates together with MODEL. May be repeated."
    ),
]
Attention = Annotated[
    bool, typer.Option("--attention", help="Write it too, with --format jsonl.")
]

# Of the commands that score translations.

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
