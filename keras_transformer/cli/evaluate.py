"""`keras-transformer evaluate`."""

import contextlib
import json
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import writing


def evaluate(
    model: options.Model,
    source: options.SourceFile,
    reference: Annotated[
        Path,
        typer.Option(
            metavar="FILE", help="A right translation of each line, plain or gzipped."
        ),
    ],
    tokenize: Annotated[
        str,
        typer.Option(
            metavar="NAME", help="How BLEU splits text into words, as in sacreBLEU."
        ),
    ] = "13a",
    lowercase: Annotated[
        bool, typer.Option("--lowercase", help="BLEU and chrF ignore case.")
    ] = False,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print a list of JSON objects.")
    ] = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations here.")
    ] = None,
) -> None:
    """Translate a file; print BLEU, chrF and TER.

    The scores are sacreBLEU's, with its signatures.
    """
    from keras_transformer import evaluation
    from keras_transformer.data.corpus import read_parallel

    options.check_length_penalty(length_penalty)
    # An option that sacreBLEU refuses is told before the long work.
    evaluation.evaluate(["."], ["."], tokenize=tokenize, metrics=["bleu"])
    text = read_parallel([source], [reference])
    with contextlib.ExitStack() as stack:
        write = stack.enter_context(writing.writer(output)) if output else None
        hypotheses = model_folder.load(model).translate(
            text.source,
            beam_size=beam_size,
            length_penalty=length_penalty,
        )
        if write:
            write("".join(f"{line}\n" for line in hypotheses))
    scores = evaluation.evaluate(
        hypotheses, text.target, tokenize=tokenize, lowercase=lowercase
    )
    if as_json:
        keys = ("name", "score", "signature")
        rows = [{key: getattr(score, key) for key in keys} for score in scores]
        print(json.dumps(rows, indent=2))
    else:
        print(*scores, sep="\n")
