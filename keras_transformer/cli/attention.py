"""`keras-transformer attention`."""

import enum
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import attention_choice
from keras_transformer.cli import attention_files
from keras_transformer.cli import options
from keras_transformer.errors import InputError


class Kind(enum.StrEnum):
    """What is drawn."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"
    alignment = "alignment"


def attention(
    model: options.Model,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A sentence to look at.")
    ] = None,
    translation: Annotated[
        str | None, typer.Option(metavar="TEXT", help="Of it. Default: the model's.")
    ] = None,
    source: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Sentences to report on.")
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Of each line. Default: the model's."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="With --text a .png or .html; with --source a .json or text. Default "
            "of the latter: standard output.",
        ),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            metavar="encoder|decoder|cross|alignment",
            help="Whose; alignment draws lines between words. Default: cross.",
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(metavar="N", help="From 0. Default: -1, the last; alignment: -2."),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(metavar="N|mean", help="From 0. Default: all; on a page mean."),
    ] = None,
) -> None:
    """Show what a model attends to.

    With --text, the heads of a layer become a picture, or those of all layers a page on
    which to choose them and to point at words; it is one file that needs no network.
    With --source, a table says what each head does: on average, which share of its
    attention goes to the token before, to delimiters, to rare words.
    """
    chosen = attention_choice.Choice(kind, layer, attention_choice.head(head))
    if (text is None) == (source is None):
        raise InputError("give --text, a sentence, or --source, a file: one of the two")
    if source is not None:
        attention_choice.check_report(translation, chosen)
        attention_files.report(model, source, target, output)
        return
    if target is not None:
        raise InputError("--target belongs to --source; with --text give --translation")
    attention_choice.check_drawing(output, chosen)
    attention_files.draw(model, text, translation, output, chosen)
