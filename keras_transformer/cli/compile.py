"""`keras-transformer compile`."""

import os
import time
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import backend
from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli.decoding_flags import with_decoding_flags


@with_decoding_flags
def compile_(
    model: options.Model,
    batch_size: Annotated[
        int, typer.Option(metavar="N", min=1, help="That of translate.")
    ] = 64,
    longest: Annotated[
        int,
        typer.Option(metavar="N", min=1, help="Tokens of the longest source line."),
    ] = 128,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Compile what translate will need, if the backend keeps it.

    Compiled are the searches of full batches and of single lines, for each rounded
    length up to --longest. JAX keeps them in the cache folder of the user, TensorFlow
    where TF_XLA_FLAGS names a folder, and PyTorch nowhere. A program is kept for the
    sizes of a model, not for its weights; for these versions of the libraries; and for
    this type of processor. Decoding options that are not given come from the model.
    """
    translator = model_folder.load(
        model,
        source_language=source_language,
        target_language=target_language,
        imports=imports or (),
    )
    folder = backend.program_folder()
    if folder is None:
        name = os.environ["KERAS_BACKEND"]
        print(f"{name} keeps no programs, so nothing was compiled; see docs/speed.md")
        return
    count, began = 0, time.monotonic()
    start = began
    for rows, length in translator.compile(batch_size, longest, **decoding):
        end = time.monotonic()
        of_lines = "a line" if rows == 1 else f"{rows} lines"
        print(f"{of_lines} of up to {length} tokens: {end - start:.1f} s", flush=True)
        count, start = count + 1, end
    print(f"{count} programs in {start - began:.1f} s, kept in {folder}")
