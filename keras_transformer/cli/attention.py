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
    """The kind of attention to draw."""

    encoder = "encoder"
    decoder = "decoder"
    cross = "cross"
    alignment = "alignment"


def attention(
    model: options.Model,
    text: Annotated[
        str | None, typer.Option(metavar="TEXT", help="A sentence to draw.")
    ] = None,
    translation: Annotated[
        str | None,
        typer.Option(metavar="TEXT", help="Its translation. Default: the model's."),
    ] = None,
    source: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="File of sentences for a report."),
    ] = None,
    target: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Their translations. Default: the model's."),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help=(
                "With --text: .png or .html. With --source: .json or text; default: "
                "standard output."
            ),
        ),
    ] = None,
    kind: Annotated[
        Kind | None,
        typer.Option(
            metavar="encoder|decoder|cross|alignment",
            help=(
                "Which attention; alignment draws lines between words. Default: cross."
            ),
        ),
    ] = None,
    layer: Annotated[
        int | None,
        typer.Option(
            metavar="N", help="Layer, from 0. Default: -1, the last; for alignment -2."
        ),
    ] = None,
    head: Annotated[
        str | None,
        typer.Option(
            metavar="N|mean",
            help="Head, from 0. Default: all heads; on a page their mean.",
        ),
    ] = None,
    source_language: options.SourceLanguage = None,
    target_language: options.TargetLanguage = None,
    imports: options.Imports = None,
) -> None:
    """Show what a model attends to.

    With --text, draws the heads of a layer as a picture, or those of all layers as an
    interactive page: one file that works offline. With --source, prints a table of what
    each head does: the mean share of its attention that goes to the previous token, to
    delimiters, to rare words.
    """
    choice = _Choice(kind, layer, _head(head))
    loading: dict[str, Any] = {
        "source_language": source_language,
        "target_language": target_language,
        "imports": imports or (),
    }
    if text is None and source is not None:
        _check_report(translation, choice)
        _report(model, source, target, output, loading)
        return
    if text is None or source is not None:
        raise InputError("give either --text (a sentence) or --source (a file)")
    if target is not None:
        raise InputError(
            "--target works with --source only; with --text use --translation"
        )
    picture = _checked_output(output, choice)
    _draw(model, text, translation, picture, choice, loading)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """The attention to draw, or to show first; None means the default."""

    kind: str | None = None
    layer: int | None = None
    head: int | Literal["mean"] | None = None

    def given(self) -> dict[str, Any]:
        """The options that were given; `alignment` is not a kind of attention."""
        values = dataclasses.asdict(self).items()
        return {k: v for k, v in values if v not in (None, "alignment")}


def _head(text: str | None) -> int | Literal["mean"] | None:
    """The value of --head: a number or `mean`."""
    if text is None:
        return None
    if text == "mean":
        return "mean"
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--head {text} is not valid; give a number or mean") from None


def _checked_output(output: Path | None, choice: _Choice) -> Path:
    """The file to draw; refuses what cannot be drawn, before the backend loads."""
    if output is None or output.suffix not in (".png", ".html"):
        raise InputError(
            f"{output or '--output is missing: it'} must end in .png or .html"
        )
    if choice.kind == "alignment" and output.suffix == ".html":
        raise InputError(
            f"--kind alignment draws a picture, but {output} is a page, which shows "
            "alignments anyway; write a .png file, or leave --kind out"
        )
    return output


def _check_report(translation: str | None, choice: _Choice) -> None:
    """Refuses options that apply to a single sentence only."""
    if translation is not None or choice.given() or choice.kind:
        raise InputError(
            "--translation, --kind, --layer and --head work with --text only; a "
            "report covers all heads, so leave them out"
        )


def _draw(
    model: Path,
    text: str,
    translation: str | None,
    output: Path,
    choice: _Choice,
    loading: dict[str, Any],
) -> None:
    """Writes the maps of a sentence as a picture or a page."""
    translator = model_folder.load(model, **loading)
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
    model: Path,
    source: Path,
    target: Path | None,
    output: Path | None,
    loading: dict[str, Any],
) -> None:
    """Writes what each head does over a corpus, as a table or as JSON."""
    from keras_transformer.data.corpus import read_lines
    from keras_transformer.data.corpus import read_parallel

    if target is None:
        pair = read_lines(source), None
    else:
        text = read_parallel([source], [target])
        pair = text.source, text.target
    translator = model_folder.load(model, **loading)
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
            "some characters are drawn as boxes because no installed font has them; "
            "install a font that does, such as Noto, or write .html",
            stacklevel=2,
        )
    return content.getvalue()
