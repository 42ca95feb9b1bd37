"""Builds notebooks with their outputs from the lessons, their single source.

    python tutorials/build_notebooks.py [--fast | --text] [LESSON ...]

LESSON is a number such as 3, or the path of a lesson; left out, all of them. Each runs
from the beginning in a folder of its own; `notebooks/` gets what it showed. With
`--fast` it runs in its fast mode, and a line at the notebook's top says so. With
`--text` nothing runs: only text between unchanged code is new. Needs
`pip install '.[all,tutorials]'`.
"""

import argparse
import base64
import io
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

import jupytext
import nbformat
from nbclient import NotebookClient
from PIL import Image

HERE = Path(__file__).resolve().parent
LESSONS = sorted(HERE.glob("[0-9]*.py"))
NOTEBOOKS = HERE / "notebooks"
FAST = (
    "*The outputs below are those of the fast mode, `TUTORIAL_FAST=1`: small models "
    "that have learned little. Run the lesson for the figures that its text names.*"
)
COLORS = 64  # of a picture: lines and heat maps need no more


def build(lesson: Path, fast: bool) -> nbformat.NotebookNode:
    """Runs a lesson; its cells and what they showed, the same wherever it ran."""
    notebook = jupytext.read(lesson)
    os.environ["TUTORIAL_FAST"] = "1" if fast else ""
    with tempfile.TemporaryDirectory() as folder:
        resources = {"metadata": {"path": folder}}
        NotebookClient(notebook, timeout=None, resources=resources).execute()
        folders = {str(Path(folder).resolve()), folder, str(HERE.parent)}
        for cell in notebook.cells:
            if cell.cell_type == "code":
                cell.outputs = merged(o for o in cell.outputs if keep(o, folders))
                cell.metadata = nbformat.NotebookNode()
    if fast:
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(FAST))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    notebook.metadata = nbformat.from_dict(
        {
            "kernelspec": {
                "display_name": "Python 3",
                "language": "python",
                "name": "python3",
            },
            "language_info": {"name": "python"},
        }
    )
    nbformat.validate(notebook)
    return notebook


def rewritten(lesson: Path, path: Path) -> nbformat.NotebookNode:
    """A notebook with the texts of its lesson, and the outputs that it has."""
    notebook = nbformat.read(path, as_version=4)
    ran = [cell for cell in notebook.cells if cell.cell_type == "code"]
    cells = jupytext.read(lesson).cells
    code = [cell.source for cell in cells if cell.cell_type == "code"]
    if code != [cell.source for cell in ran]:
        raise SystemExit(f"the code of {lesson.name} has changed; leave out --text")
    is_fast = any(cell.source == FAST for cell in notebook.cells)
    outputs = iter(ran)
    notebook.cells = [
        next(outputs) if cell.cell_type == "code" else cell for cell in cells
    ]
    if is_fast:
        notebook.cells.insert(1, nbformat.v4.new_markdown_cell(FAST))
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"
    nbformat.validate(notebook)
    return notebook


def keep(output: nbformat.NotebookNode, folders: set[str]) -> bool:
    """Whether an output is the lesson's; makes paths relative and pictures small.

    What a framework says on standard error is none of it, nor is the value of a cell's
    last line: a lesson prints.
    """
    if output.output_type == "execute_result":
        return False
    if output.output_type == "stream":
        for folder in folders:
            output.text = output.text.replace(f"{folder}/", "").replace(folder, ".")
        return output.name == "stdout"
    data = output.get("data", {})
    if "image/png" in data:
        data["image/png"] = reduced(data["image/png"])
        data.pop("text/plain", None)
    return True


def merged(
    outputs: Iterable[nbformat.NotebookNode],
) -> list[nbformat.NotebookNode]:
    """The outputs, with text that was cut in two at random put together again."""
    together = []
    for output in outputs:
        text = output.output_type == "stream"
        if text and together and together[-1].output_type == "stream":
            together[-1].text += output.text
        else:
            together.append(output)
    return together


def reduced(png: str) -> str:
    """A picture in base64 with few colours and without metadata."""
    picture = Image.open(io.BytesIO(base64.b64decode(png))).convert("RGB")
    content = io.BytesIO()
    picture.quantize(COLORS).save(content, "PNG", optimize=True)
    return base64.b64encode(content.getvalue()).decode()


def chosen(names: list[str]) -> list[Path]:
    """The lessons of these numbers or paths; all where there is none."""
    found = [
        lesson
        for lesson in LESSONS
        if not names
        or any(
            Path(name).name in (lesson.name, str(int(lesson.name[:2])))
            for name in names
        )
    ]
    if len(found) < len(names):
        raise SystemExit(f"of {', '.join(names)} not all are lessons in {HERE}")
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("lessons", nargs="*", metavar="LESSON", help="3, or its path")
    way = parser.add_mutually_exclusive_group()
    way.add_argument("--fast", action="store_true", help="run the fast mode")
    way.add_argument("--text", action="store_true", help="run nothing: text alone")
    arguments = parser.parse_args()
    NOTEBOOKS.mkdir(exist_ok=True)
    for lesson in chosen(arguments.lessons):
        path = NOTEBOOKS / f"{lesson.stem}.ipynb"
        print(lesson.name, flush=True)
        built = (
            rewritten(lesson, path) if arguments.text else build(lesson, arguments.fast)
        )
        nbformat.write(built, path)


if __name__ == "__main__":
    main()
