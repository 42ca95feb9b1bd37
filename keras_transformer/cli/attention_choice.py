"""The options of `attention`, and which of them exclude each other."""

import dataclasses
from pathlib import Path
from typing import Any
from typing import Literal

from keras_transformer.errors import InputError


@dataclasses.dataclass(frozen=True)
class Choice:
    """What is drawn, or shown first; None is the default of each."""

    kind: str | None = None
    layer: int | None = None
    head: int | Literal["mean"] | None = None

    def given(self) -> dict[str, Any]:
        """What somebody chose; an alignment is no kind of attention."""
        values = dataclasses.asdict(self).items()
        return {k: v for k, v in values if v not in (None, "alignment")}


def head(text: str | None) -> int | Literal["mean"] | None:
    """The number that a text is, or `mean`."""
    if text is None or text == "mean":
        return text
    try:
        return int(text)
    except ValueError:
        raise InputError(f"--head {text} is none; give a number or mean") from None


def check_drawing(output: Path | None, choice: Choice) -> None:
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


def check_report(translation: str | None, choice: Choice) -> None:
    """Refuses what only a sentence has."""
    if translation is not None or choice.given() or choice.kind:
        raise InputError(
            "--translation, --kind, --layer and --head belong to --text; a report is "
            "of all heads, leave them out"
        )
