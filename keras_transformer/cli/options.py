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
