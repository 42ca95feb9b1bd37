"""Arguments and options that several commands share."""

from pathlib import Path
from typing import Annotated
from typing import TypedDict

import typer

from keras_transformer.cli import formats
from keras_transformer.engines import EngineName

Model = Annotated[
    Path,
    typer.Argument(metavar="MODEL", help="A model folder, such as runs/NAME/averaged."),
]
SourceFile = Annotated[
    Path,
    typer.Option(
        "--source", metavar="FILE", help="Lines to translate, plain or compressed."
    ),
]
Examples = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="Lines for the warm-up requests and the card."),
]
Format = Annotated[
    formats.Format, typer.Option(metavar="text|jsonl", help="Output format; see above.")
]
Prefixes = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE", help="File with the beginning of each line's translation."
    ),
]
Ensemble = Annotated[
    list[Path] | None,
    typer.Option(
        metavar="MODEL",
        help="Another model to translate with, as an ensemble. May be repeated.",
    ),
]
SourceLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language of the source, for a model of several. Default: the model's.",
    ),
]
TargetLanguage = Annotated[
    str | None,
    typer.Option(
        metavar="CODE",
        help="Language to translate into, for a model of several; see info.",
    ),
]
Engine = Annotated[
    EngineName,
    typer.Option(
        metavar="keras|ctranslate2|auto",
        help="What runs the model; auto: ctranslate2 if it has all that is asked for.",
    ),
]
Imports = Annotated[
    list[str] | None,
    typer.Option(
        "--import",
        metavar="MODULE",
        help="Module with classes of your own that the model needs. May be repeated.",
    ),
]
Attention = Annotated[
    bool,
    typer.Option(
        "--attention", help="Write attention weights too; needs --format jsonl."
    ),
]

# Options of the commands that score translations.

_REFERENCE = typer.Option(
    "--reference",
    metavar="FILE",
    help=(
        "Reference translation of each line, plain or compressed. Repeat it for "
        "several references."
    ),
)
References = Annotated[list[Path], _REFERENCE]
ReferencesOrNone = Annotated[list[Path] | None, _REFERENCE]
Tokenize = Annotated[
    str,
    typer.Option(
        metavar="NAME",
        help=(
            "How BLEU splits text into words: a tokenizer of sacreBLEU, none for "
            "tokenized text, or Moses' tokenizer of a language, such as moses-de."
        ),
    ),
]
Lowercase = Annotated[
    bool,
    typer.Option(
        "--lowercase",
        help=(
            "BLEU and chrF ignore case. With --tokenize moses-de this is the "
            "lower-cased tokenized BLEU (lc.tok) of papers."
        ),
    ),
]
WordOrder = Annotated[
    int,
    typer.Option(
        "--chrf-word-order",
        metavar="N",
        min=0,
        help="chrF also counts sequences of up to N words; 2 is chrF++.",
    ),
]
Metrics = Annotated[
    list[str] | None,
    typer.Option(
        "--metric",
        metavar="MODULE:FUNCTION",
        help="A metric of your own, too, such as a learned one. May be repeated.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON list.")]


class ScoreOptions(TypedDict):
    """Options of `evaluation.evaluate` that these commands share."""

    tokenize: str
    lowercase: bool
    confidence: int
    chrf_word_order: int
