"""`keras-transformer serve`."""

import functools
import os
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import backend
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli.decoding_flags import with_decoding_flags
from keras_transformer.engines import EngineName
from keras_transformer.errors import InputError

#: An environment variable, because every user of the machine can read arguments.
KEY = "KERAS_TRANSFORMER_API_KEY"

_Host = Annotated[
    str,
    typer.Option(
        metavar="ADDRESS",
        help="Address to listen on; 0.0.0.0 lets other machines connect.",
    ),
]
_Port = Annotated[
    int, typer.Option(metavar="N", min=0, max=65535, help="Port; 0 takes any free one.")
]
_Name = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="Name of the model, in /v1/models/NAME. Default: its folder's.",
    ),
]
_Languages = Annotated[
    str,
    typer.Option(
        metavar="CODES", help="Language pair, such as en-de; others are refused."
    ),
]
_BatchSize = Annotated[
    int, typer.Option(metavar="N", min=1, help="Sentences translated at once.")
]
_Queue = Annotated[
    int,
    typer.Option(
        metavar="N", min=1, help="Sentences that may wait; more get status 429."
    ),
]
_MaxBody = Annotated[
    int, typer.Option(metavar="BYTES", min=1, help="Of a request; larger: 413.")
]
_MaxSentences = Annotated[
    int, typer.Option(metavar="N", min=1, help="Sentences of a request; more: 400.")
]
_MaxCharacters = Annotated[
    int, typer.Option(metavar="N", min=1, help="Characters of a sentence; more: 400.")
]
_MaxRequestCharacters = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Characters of a request; more: 400."),
]
_Timeout = Annotated[
    int,
    typer.Option(metavar="SECONDS", min=1, help="Time limit of an answer; then 504."),
]
_WarmUp = Annotated[
    int,
    typer.Option(
        metavar="N", min=0, help="Compile at start, for sentences of up to N tokens."
    ),
]
_AccessLog = Annotated[
    bool,
    typer.Option("--access-log", help="Write a line for each request."),
]


@functools.partial(with_decoding_flags, names=["beam_size", "length_penalty"])
def serve(
    model: options.Model,
    host: _Host = "127.0.0.1",
    port: _Port = 8501,
    name: _Name = None,
    languages: _Languages = "",
    batch_size: _BatchSize = 64,
    queue: _Queue = 1024,
    max_body: _MaxBody = 2**20,
    max_sentences: _MaxSentences = 128,
    max_characters: _MaxCharacters = 4000,
    max_request_characters: _MaxRequestCharacters = 2**17,
    timeout: _Timeout = 60,
    warm_up: _WarmUp = 32,
    access_log: _AccessLog = False,
    engine: options.Engine = EngineName.keras,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Answer translation requests over HTTP, with a page.

    MODEL is a model folder, or one of 'export --format ctranslate2'; with '--engine
    ctranslate2' the server converts a model folder to one, for one pair of languages,
    and keeps that in the user's cache. POST /translate
    takes {"text": "..."} or {"texts": [...]}; POST /v1/models/NAME:predict takes the
    requests of TF Serving. A model of several languages takes "source_language" and
    "target_language" (or "src_lang" and "tgt_lang", or "source" and "target") with each
    request; --source-language and --target-language are for those that lack them.
    Where KERAS_TRANSFORMER_API_KEY is set, clients must send it as 'Authorization:
    Bearer KEY'. Decoding options that are not given come from the model. SIGTERM,
    SIGHUP or ctrl-C stops the server once all accepted requests are answered.
    """
    model_folder.check(model, "a model folder")
    try:
        from keras_transformer.serving import guard
        from keras_transformer.serving import loading
        from keras_transformer.serving import naming
        from keras_transformer.serving.limits import Limits
        from keras_transformer.serving.server import serve as run
        from keras_transformer.serving.service import Service
    except ModuleNotFoundError as error:
        raise InputError(
            f"serve needs {error.name}, which is not installed; run pip install "
            f"starlette uvicorn prometheus-client sentencex"
        ) from None
    if name is not None:
        naming.check_name(name)  # before the model loads, which takes long
    pair = naming.parse_languages(languages)
    key = guard.parse_key(os.environ.get(KEY), KEY)
    limits = Limits(
        batch_size=batch_size,
        queue_sentences=queue,
        body_bytes=max_body,
        sentences=max_sentences,
        characters=max_characters,
        request_characters=max_request_characters,
        answer_seconds=timeout,
    )
    loaded = loading.load_engine(
        model,
        limits,
        engine=engine,
        before_keras=functools.partial(backend.activate, imports=imports or ()),
        source_language=source_language,
        target_language=target_language,
        **decoding,
    )
    service = Service(
        loaded,
        name or naming.model_name(loaded.about, model),
        limits,
        languages=pair,
        warm_up_tokens=warm_up,
    )
    if loaded.languages is None and not all(service.languages):
        progress.say(
            "the model names no languages, so that those of requests are not checked; "
            "--languages en-de would"
        )
    run(service, host, port, key, access_log=access_log)
