"""`keras-transformer import`."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from keras_transformer.cli import backend
from keras_transformer.errors import InputError


def import_(
    source: Annotated[
        str,
        typer.Argument(
            metavar="SOURCE",
            help="A folder or file of another toolkit, or a name of the hub.",
        ),
    ],
    output: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="The model folder to write.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it is, and write nothing.")
    ] = False,
    source_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Language to translate from, if none is given."
        ),
    ] = None,
    target_language: Annotated[
        str | None,
        typer.Option(
            metavar="CODE", help="Language to translate into, if none is given."
        ),
    ] = None,
    source_tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SentencePiece model of the source, if there is none."
        ),
    ] = None,
    target_tokenizer: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="SentencePiece model of the target, if it is another."
        ),
    ] = None,
) -> None:
    """Write a model of another toolkit as a model folder.

    docs/import.md lists what can be imported. Prints the family, the number of weights,
    gigabytes, the licence as far as the files say it, languages, and what was left out.
    Nothing in SOURCE is run. A name such as Helsinki-NLP/opus-mt-en-de is fetched from
    the Hugging Face hub, if huggingface_hub is installed. A model that has no
    safetensors there, as some of OPUS-MT, also needs PyTorch.
    """
    from keras_transformer import importing

    def report(function: Callable[..., object], *arguments: str | Path) -> None:
        found = function(
            *arguments,
            source_language=source_language,
            target_language=target_language,
            source_tokenizer=source_tokenizer,
            target_tokenizer=target_tokenizer,
        )
        print(found)

    if dry_run:
        report(importing.inspect, source)
        return
    if output is None:
        raise InputError(
            "import needs --output FOLDER, the model folder to write; or --dry-run"
        )
    backend.activate()
    report(importing.convert, source, output)
