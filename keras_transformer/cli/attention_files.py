"""Output files of `attention`: a picture, a page or a report."""

import io
import json
import warnings
from pathlib import Path
from typing import Any

from keras_transformer.cli import model_folder
from keras_transformer.cli import progress
from keras_transformer.cli import writing
from keras_transformer.cli.attention_choice import Choice


def draw(
    model: Path, text: str, translation: str | None, output: Path, choice: Choice
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


def report(model: Path, source: Path, target: Path | None, output: Path | None) -> None:
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

    found = visualization.head_report(translator, *pair)
    as_json = output is not None and output.suffix == ".json"
    with writing.writer(output) as write:
        content = json.dumps(found.to_dict(), indent=2) if as_json else str(found)
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
