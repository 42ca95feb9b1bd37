"""`keras-transformer score`."""

from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import reading
from keras_transformer.cli import writing

_LINES_AT_ONCE = 512


def score(
    model: options.Model,
    source: options.SourceFile,
    target: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A translation of each line, plain or gzipped."
        ),
    ],
) -> None:
    """Print the log-probability of given translations.

    One natural logarithm a line.
    """
    from keras_transformer.data.corpus import read_parallel

    text = read_parallel([source], [target])
    translator = model_folder.load(model)
    pairs = zip(text.source, text.target, strict=True)
    with writing.writer(None) as write:
        for piece in reading.pieces(pairs, _LINES_AT_ONCE):
            scores = translator.score(*map(list, zip(*piece, strict=True)))
            write("".join(f"{score.log_probability:.6f}\n" for score in scores))
