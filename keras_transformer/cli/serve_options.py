"""Options of `serve`: where it listens, and what it takes on."""

from typing import Annotated

import typer

Host = Annotated[
    str, typer.Option(metavar="ADDRESS", help="0.0.0.0 lets other machines in.")
]
Port = Annotated[
    int, typer.Option(metavar="N", min=0, max=65535, help="0: any free one.")
]
Name = Annotated[
    str, typer.Option(metavar="NAME", help="Of the model, in /v1/models/NAME.")
]
Languages = Annotated[
    str, typer.Option(metavar="CODES", help="Such as en-de; refuse all others.")
]
BatchSize = Annotated[
    int, typer.Option(metavar="N", min=1, help="Sentences translated at once.")
]
Queue = Annotated[
    int, typer.Option(metavar="N", min=1, help="Sentences that may wait; beyond, 429.")
]
MaxBody = Annotated[
    int, typer.Option(metavar="BYTES", min=1, help="Of a request; beyond, 413.")
]
MaxSentences = Annotated[
    int, typer.Option(metavar="N", min=1, help="Of a request; beyond, 400.")
]
MaxCharacters = Annotated[
    int, typer.Option(metavar="N", min=1, help="Of a sentence; beyond, 400.")
]
MaxRequestCharacters = Annotated[
    int,
    typer.Option(metavar="N", min=1, help="Of a request's sentences; beyond, 400."),
]
Timeout = Annotated[
    int, typer.Option(metavar="SECONDS", min=1, help="For an answer; beyond, 504.")
]
WarmUp = Annotated[
    int, typer.Option(metavar="N", min=0, help="Compile first, for up to N tokens.")
]
