"""Builds the documentation site, with Sphinx and MyST-NB.

    pip install '.[docs]'
    python docs/build.py                     # build/site/index.html
    python docs/build.py --output public

Strict: a warning is an error, such as a link within the site that leads nowhere. The
generated pages are written first; no notebook is run.
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import runpy
import sys
from pathlib import Path

FOLDER = Path(__file__).resolve().parent
ROOT = FOLDER.parent
FRONT = "docs/index.html"
REDIRECT = f"""<!doctype html>
<meta charset="utf-8">
<title>keras-transformer</title>
<meta http-equiv="refresh" content="0; url={FRONT}">
<a href="{FRONT}">keras-transformer</a>
"""


def choose_backend() -> None:
    """Lets Keras load any backend that is installed; docstrings are the same."""
    for name in ("jax", "torch", "tensorflow"):
        if importlib.util.find_spec(name):
            os.environ.setdefault("KERAS_BACKEND", name)


def build(output: Path) -> int:
    """Writes the site; returns Sphinx's exit code."""
    from sphinx.cmd.build import build_main

    sys.path.insert(0, str(ROOT))  # documents this clone
    runpy.run_path(str(FOLDER / "reference.py"))["write"]()
    work = str(output.parent / f"{output.name}-doctrees")
    arguments = [
        "-q",
        "-E",
        "-a",
        "-W",
        "--keep-going",
        "-n",
        "-b",
        "html",
        "-c",
        str(FOLDER),
    ]
    code = build_main([*arguments, "-d", work, str(ROOT), str(output)])
    if code == 0:
        (output / "index.html").write_text(REDIRECT, encoding="utf-8")
        (output / ".nojekyll").touch()
    return code


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=ROOT / "build" / "site")
    arguments = parser.parse_args()
    choose_backend()
    if code := build(arguments.output.resolve()):
        sys.exit(code)
    print(arguments.output / "index.html")
