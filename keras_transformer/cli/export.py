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
from keras_transformer.waiting import waiting


class Format(enum.StrEnum):
    """The export format: each is a module of `keras_transformer.export`."""

    saved_model = "saved_model"
    onnx = "onnx"
    litert = "litert"
    ctranslate2 = "ctranslate2"
    transformers = "transformers"


#: The options that one of them has alone, or that some share.
_OPTIONS = {
    Format.saved_model: {"version", "examples"},
    Format.onnx: {"quantization", "web", "assets"},
    Format.litert: {"quantization"},
    Format.ctranslate2: {"quantization"},
    Format.transformers: set(),
}


@with_decoding_flags
def export(
    model: options.Model,
    format: Annotated[
        Format,
        typer.Option(
            metavar="saved_model|onnx|litert|ctranslate2|transformers",
            help="Described above.",
        ),
    ],
    output: Annotated[
        Path, typer.Option(metavar="FOLDER", help="The folder to write.")
    ],
    version: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="Version of a SavedModel. Default: the next."
        ),
    ] = None,
    examples: options.Examples = None,
    quantization: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Quantization of onnx, litert and ctranslate2, such as int8. Default: "
            "float32.",
        ),
    ] = None,
    web: Annotated[
        bool,
        typer.Option(
            "--web",
            help="Write a page, too, that translates in a browser (onnx). It needs two "
            "npm packages beside it.",
        ),
    ] = False,
    assets: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER",
            help="Copy the packages of --web from FOLDER, where npm installed them.",
        ),
    ] = None,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
    *,
    decoding: dict[str, Any],
) -> None:
    """Write a model for other programs.

    saved_model is for TensorFlow and TF Serving: FOLDER/VERSION maps text to text, with
    the search built in. onnx and litert hold an encoder and a decoder step, with a
    description of the loop around them; ctranslate2 runs in C++. Each of these three
    names its values of --quantization when it gets another. transformers is a folder
    for the library of Hugging Face, with its nearest model class and tokenizer;
    importing it gives back the same model. Decoding options that are not given come
    from the model. A format refuses options that it does not support: none of them
    samples, uses MBR or splits long lines. A model of several languages is exported
    with one source and one target language.
    """
    options_given: dict[str, Any] = {
        "version": version,
        "examples": examples,
        "quantization": quantization,
        **({"web": True} if web else {}),
        **({"assets": assets} if assets is not None else {}),
    }
    for name in sorted(options_given.keys() - _OPTIONS[format]):
        if options_given.pop(name) is not None:
            raise InputError(
                f"the format {format} has no option --{name.replace('_', '-')}; "
                "leave it out"
            )
    translator = model_folder.load(
        model,
        source_language=source_language,
        target_language=target_language,
        imports=imports or (),
    )
    from keras_transformer.model_folder import card

    options_given["card"] = card(model)
    if "examples" in options_given and (examples := options_given.pop("examples")):
        from keras_transformer.data.corpus import read_lines

        options_given["warm_up"] = read_lines(examples)
    module = importlib.import_module(f"keras_transformer.export.{format}")
    what = f"writing {output} in the format {format}"
    with waiting(what, progress.say), progress.warnings_reported():
        print(module.export(translator, output, **options_given, **decoding))
