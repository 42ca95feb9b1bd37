"""`keras-transformer average`."""

from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import backend
from keras_transformer.cli import model_folder
from keras_transformer.cli import options

_LAST = 5  # checkpoints


def average(
    run: Annotated[
        Path, typer.Argument(metavar="RUN", help="A run folder written by train.")
    ],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The model folder to write.")
    ],
    last: Annotated[
        int | None,
        typer.Option(
            metavar="N",
            min=1,
            help=f"Average the latest N checkpoints; default: {_LAST}.",
        ),
    ] = None,
    best: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Average the N best in validation instead."
        ),
    ] = None,
    imports: options.Imports = None,
) -> None:
    """Average checkpoints of a run; it may still be training."""
    if last is not None and best is not None:
        raise typer.BadParameter("give --last or --best, not both")
    model_folder.check(run, "a run folder")
    backend.activate(imports=imports or ())
    from keras_transformer.training import averaging

    steps = averaging.average(run, last or _LAST, output, best)
    print(f"{output}: mean of the checkpoints at steps {', '.join(map(str, steps))}")
