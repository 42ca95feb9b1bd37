"""`keras-transformer export`."""

import enum
import importlib
from pathlib import Path
from typing import Annotated
from typing import Any

import typer

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli.decoding_flags import with_decoding_flags
from keras_transformer.errors import InputError


class Format(enum.StrEnum):
    """What is written: a module of `keras_transformer.export` each."""

    saved_model = "saved_model"
    onnx = "onnx"
    litert = "litert"
    ctranslate2 = "ctranslate2"


@with_decoding_flags
def export(
    model: options.Model,
    format: Annotated[
        Format,
        typer.Option(metavar="saved_model|onnx|litert|ctranslate2", help="See above."),
    ],
    output: Annotated[Path, typer.Option(metavar="FOLDER", help="Where to.")],
    version: Annotated[
        int | None,
        typer.Option(metavar="N", min=1, help="Of a SavedModel. Default: the next."),
    ] = None,
    examples: options.Examples = None,
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Of the others: int8, for instance. Default: float32."
        ),
    ] = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Write a model for other programs.

    The format saved_model is for TensorFlow and TF Serving: FOLDER/VERSION takes and
    gives text, with the search built in. onnx and litert are an encoder and a step of
    the decoder with a description of the loop around them; ctranslate2 runs in C++.
    What these three take as --quantization, each says. Options of the search that are
    left out are those of the model; what a format does not have, it refuses: no format
    draws samples, has MBR or splits long lines.
    """
    saved_model = format is Format.saved_model
    given: dict[str, Any] = {
        "version": version,
        "examples": examples,
        "quantization": quantization,
    }
    foreign = {"quantization"} if saved_model else given.keys() - {"quantization"}
    for name in sorted(foreign):
        if given.pop(name) is not None:
            raise InputError(
                f"the format {format} has no --{name.replace('_', '-')}; leave it out"
            )
    translator = model_folder.load(model)
    if saved_model:
        from keras_transformer.data.corpus import read_lines
        from keras_transformer.model_folder import card

        given["card"] = card(model)
        if examples := given.pop("examples"):
            given["warm_up"] = read_lines(examples)
    module = importlib.import_module(f"keras_transformer.export.{format}")
    with progress.warnings_reported():
        print(module.export(translator, output, **given, **decoding))
