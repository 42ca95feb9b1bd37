"""`keras-transformer evaluate`."""

import contextlib
import dataclasses
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import scoring
from keras_transformer.cli import writing


def evaluate(
    model: options.Model,
    source: options.SourceFile,
    reference: scoring.Reference,
    tokenize: scoring.Tokenize = "13a",
    lowercase: scoring.Lowercase = False,
    confidence: Annotated[
        int,
        typer.Option(
            metavar="N",
            help="Bootstrap samples for 95 % confidence intervals; 1000 is usual.",
        ),
    ] = 0,
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    as_json: scoring.Json = False,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the translations here.")
    ] = None,
) -> None:
    """Translate a file; print BLEU, chrF and TER.

    The scores are sacreBLEU's, with its signatures. 'compare' scores files that are
    translated already.
    """
    from keras_transformer import evaluation
    from keras_transformer.data.corpus import read_parallel

    settings = {
        "tokenize": tokenize,
        "lowercase": lowercase,
        "confidence": confidence,
    }
    options.check_length_penalty(length_penalty)
    # An option that scoring refuses is told before the long work.
    evaluation.evaluate(["."], ["."], metrics=["bleu"], **settings)
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
    scores = evaluation.evaluate(hypotheses, text.target, **settings)
    if as_json:
        scoring.print_json(map(dataclasses.asdict, scores))
    else:
        print(*scores, sep="\n")
