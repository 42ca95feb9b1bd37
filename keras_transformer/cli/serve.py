"""`keras-transformer serve`."""

import os
from typing import Annotated

import typer

from keras_transformer.cli import backend
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.errors import InputError

#: Names the environment variable: an argument could be read by anybody on the machine.
KEY = "KERAS_TRANSFORMER_API_KEY"


def serve(
    model: options.Model,
    host: Annotated[
        str, typer.Option(metavar="ADDRESS", help="0.0.0.0 lets other machines in.")
    ] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(metavar="N", min=0, max=65535, help="0: any free one.")
    ] = 8501,
    name: Annotated[
        str, typer.Option(metavar="NAME", help="Of the model, in /v1/models/NAME.")
    ] = "default",
    languages: Annotated[
        str, typer.Option(metavar="CODES", help="Such as en-de; refuse all others.")
    ] = "",
    beam_size: options.BeamSize = None,
    length_penalty: options.LengthPenalty = None,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sentences translated at once.")
    ] = 64,
    queue: Annotated[
        int, typer.Option(metavar="N", min=1, help="Sentences that may wait.")
    ] = 1024,
    warm_up: Annotated[
        int,
        typer.Option(metavar="N", min=0, help="Compile first, for up to N tokens."),
    ] = 32,
) -> None:
    """Answer translation requests over HTTP, and show a page to try it.

    MODEL is a model folder, or one of 'export --format ctranslate2'. POST /translate
    takes {"text": "..."} or {"texts": [...]}, POST /v1/models/NAME:predict what TF
    Serving takes. Where KERAS_TRANSFORMER_API_KEY is set, clients must send it as
    'Authorization: Bearer KEY'. SIGTERM or ctrl-C stops it when all that was taken on
    is answered.
    """
    options.check_length_penalty(length_penalty)
    model_folder.check(model, "a model folder")
    try:
        from keras_transformer.serving import loading
        from keras_transformer.serving import naming
        from keras_transformer.serving.limits import Limits
        from keras_transformer.serving.server import serve as run
        from keras_transformer.serving.service import Service
    except ModuleNotFoundError as error:
        raise InputError(
            f"{error.name} is not installed; run pip install 'keras-transformer[serve]'"
        ) from None
    naming.check_name(name)  # now: a model takes long to load
    pair = naming.parse_languages(languages)
    if not loading.is_ctranslate2(model):
        backend.activate()
    limits = Limits(batch_size=batch_size, queue_sentences=queue)
    service = Service(
        loading.load_engine(
            model, limits, beam_size=beam_size, length_penalty=length_penalty
        ),
        name,
        limits,
        languages=pair,
        warm_up_tokens=warm_up,
    )
    run(service, host, port, os.environ.get(KEY) or None)
