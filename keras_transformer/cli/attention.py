"""`keras-transformer attention`."""

import dataclasses
import enum
import io
import json
import warnings
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import Literal

import typer

from keras_transformer.cli import model_folder
from keras_transformer.cli import options
from keras_transformer.cli import progress
from keras_transformer.cli import writing
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
    chosen = _Choice(kind, layer, _head(head))
    if (text is None) == (source is None):
        raise InputError("give --text, a sentence, or --source, a file: one of the two")
    if source is not None:
        _check_report(translation, chosen)
        _report(model, source, target, output)
        return
    if target is not None:
        raise InputError("--target belongs to --source; with --text give --translation")
    _check_drawing(output, chosen)
    _draw(model, text, translation, output, chosen)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """What is drawn, or shown first; None is the default of each."""

    kind: str | None = None
    layer: int | None = None
    head: int | Literal["mean"] | None = None

    def given(self) -> dict[str, Any]:
        """What somebody chose; an alignment is no kind of attention."""
        values = dataclasses.asdict(self).items()
        return {k: v for k, v in values if v not in (None, "alignment")}


def _head(text: str | None) -> int | Literal["mean"] | None:
    """The number that a text is, or `mean`."""
    if text is None or text == "mean":
        return text
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--head {text} is none; give a number or mean") from None


def _check_drawing(output: Path | None, choice: _Choice) -> None:
    """Refuses what cannot be drawn, before anything heavy loads."""
    if output is None or output.suffix not in (".png", ".html"):
        raise InputError(
            f"{output or '--output is missing; it'} must end with .png or .html"
        )
    if choice.kind == "alignment" and output.suffix == ".html":
        raise InputError(
            f"--kind alignment is a picture, but {output} a page, which has lines of "
            f"its own; write .png, or leave --kind out"
        )


def _check_report(translation: str | None, choice: _Choice) -> None:
    """Refuses what only a sentence has."""
    if translation is not None or choice.given() or choice.kind:
        raise InputError(
            "--translation, --kind, --layer and --head belong to --text; a report is "
            "of all heads, leave them out"
        )


def _draw(
    model: Path, text: str, translation: str | None, output: Path, choice: _Choice
) -> None:
    """Writes the maps of a sentence as a picture or a page."""
    translator = model_folder.load(model)
    from keras_transformer import visualization

    with progress.warnings_reported():
        maps = visualization.attention_maps(translator, text, translation)
        if output.suffix == ".html":
            content = visualization.html_page(maps, **choice.given())
        elif choice.kind == "alignment":
            content = _png(visualization.draw_alignment(maps, **choice.given()))
        else:
            content = _png(visualization.draw_heads(maps, **choice.given()))
    with writing.writer(output) as write:
        write(content)


def _report(
    model: Path, source: Path, target: Path | None, output: Path | None
) -> None:
    """Writes what each head does over a corpus, as a table or as JSON."""
    from keras_transformer.data.corpus import read_lines
    from keras_transformer.data.corpus import read_parallel

    if target is None:
        pair = read_lines(source), None
    else:
        text = read_parallel([source], [target])
        pair = text.source, text.target
    translator = model_folder.load(model)
    from keras_transformer import visualization

    table = visualization.head_report(translator, *pair)
    as_json = output is not None and output.suffix == ".json"
    with writing.writer(output) as write:
        content = json.dumps(table.to_dict(), indent=2) if as_json else str(table)
        write(f"{content}\n")


def _png(figure: Any) -> bytes:
    content = io.BytesIO()
    with warnings.catch_warnings(record=True) as caught:
        figure.savefig(content, format="png", bbox_inches="tight")
    if any(str(warning.message).startswith("Glyph") for warning in caught):
        warnings.warn(
            "no installed font has some of the characters, which are boxes now; "
            "install one that has them, such as Noto, or write .html",
            stacklevel=2,
        )
    return content.getvalue()
