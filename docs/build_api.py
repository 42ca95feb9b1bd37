"""Builds the API reference from the docstrings, with pdoc.

    pip install '.[docs]'
    python docs/build_api.py                     # build/api/index.html
    python docs/build_api.py --output public

Each public name has its place there: the names in `__all__` of the package and of its
public submodules, and nothing else.
"""

import argparse
import importlib
import types
import warnings
from pathlib import Path

import pdoc

PACKAGE = "keras_transformer"
#: Keras's own section, beside those that the style of docstrings knows.
LIST_SECTION = "Call arguments"


def load_names(name: str) -> list[str]:
    """Loads the lazy names of a module and of its public submodules, at any depth.

    pdoc reads a module's dictionary, where a lazy name is missing until it is used.
    Gives the specifications of what is no page: the file of a function's name.
    """
    module = importlib.import_module(name)
    specifications = []
    for attribute in getattr(module, "__all__", ()):
        value = vars(module)[attribute] = getattr(module, attribute)
        if isinstance(value, types.ModuleType):
            specifications += load_names(f"{name}.{attribute}")
        else:
            specifications.append(f"!{name}.{attribute}")
    return specifications


def build(folder: Path) -> None:
    """Writes one page for each public module, and an index with a search."""
    if LIST_SECTION not in pdoc.docstrings.GOOGLE_LIST_SECTIONS:
        pdoc.docstrings.GOOGLE_LIST_SECTIONS.append(LIST_SECTION)
    pdoc.render.configure(docformat="google", math=True, show_source=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # a name that pdoc doesn't find
        pdoc.pdoc(PACKAGE, *load_names(PACKAGE), output_directory=folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--output", type=Path, default=Path("build/api"))
    arguments = parser.parse_args()
    build(arguments.output)
    print(arguments.output / "index.html")
