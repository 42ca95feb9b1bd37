"""The card of an imported model: what it is, where it comes from, how to use it."""

from __future__ import annotations

from pathlib import Path

from keras_transformer.control_characters import escaped
from keras_transformer.importing.report import ImportReport

_TEXT = """# A {family} model, imported by keras-transformer

`keras-transformer translate` with this folder translates standard input.

{facts}

It was imported from `{name}`. Whoever trained it decides what it may be used for.
"""


def import_card(report: ImportReport) -> str:
    """The text of the README.md of an imported model folder."""
    lines = str(report).splitlines()
    facts = "\n".join(f"* {x}" for x in lines if not x.startswith("model folder:"))
    name = _name(report.source)
    return _TEXT.format(family=report.family, facts=facts, name=name)


def _name(source: str) -> str:
    """The name of a folder or file without its place; a name of the hub as it is."""
    path = Path(source)
    return escaped(path.resolve().name if path.exists() else source).replace("`", "'")
