"""Arguments and options of the commands; most are shared by several."""

from pathlib import Path
from typing import Annotated

import typer

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model folder, such as runs/NAME/averaged."),
]
BeamSize = Annotated[
    int | None,
    typer.Option(
        metavar="N", min=1, help="Hypotheses kept; 1 is greedy. Default: the model's."
    ),
]
LengthPenalty = Annotated[
    float | None,
    typer.Option(
        metavar="A",
        min=0.0,
        help="The higher, the longer translations. Default: the model's.",
    ),
]
SourceFile = Annotated[
    Path,
    typer.Option(
        "--source", metavar="FILE", help="Lines to translate, plain or gzipped."
    ),
]
Examples = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Lines for the warm-up requests and the card."),
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
