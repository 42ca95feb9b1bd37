"""What every table says of the machine, and the same as JSON."""

import contextlib
import importlib.metadata
import json
import platform
import shutil
import statistics
import subprocess
import sys
from pathlib import Path

from turns import machine

_PACKAGES = (
    "keras-transformer-mt",
    "keras",
    "jax",
    "jaxlib",
    "torch",
    "tensorflow",
    "triton",
    "transformers",
    "ctranslate2",
    "numpy",
)
_CARD = (
    "name",
    "driver_version",
    "memory.total",
    "clocks.max.sm",
    "clocks.max.mem",
    "power.limit",
)
_LOAD = ("clocks.sm", "clocks.mem", "power.draw", "temperature.gpu")


class Machine:
    """The device, its versions, and its clocks while a benchmark runs.

    Use it as a context around the work: `nvidia-smi`, where there is one, is asked
    every second. `facts` are then complete.
    """

    def __init__(self):
        self.facts = {
            "device": machine(),
            "python": platform.python_version(),
            "versions": dict(_versions()),
        }
        self.card = None
        self._watch = None

    def __enter__(self):
        if not shutil.which("nvidia-smi"):
            return self
        asked = subprocess.run(_query(_CARD), capture_output=True, text=True)
        if asked.returncode == 0:  # it may be there without a card
            card = dict(zip(_CARD, _first_row(asked.stdout), strict=True))
            self.card = card["name"]
            self.facts |= {"device": self.card, "card": card}
            self._watch = subprocess.Popen(
                [*_query(_LOAD), "--loop=1"], stdout=subprocess.PIPE, text=True
            )
        return self

    def __exit__(self, *_):
        if self._watch is None:
            return
        self._watch.terminate()
        rows = self._watch.communicate()[0].splitlines()
        self.facts["load"] = {
            name: {"median": statistics.median(values), "highest": max(values)}
            for name, values in zip(_LOAD, _columns(rows), strict=False)
        }

    def print(self):
        """The device, its versions and its card, as lines of Markdown."""
        versions = ", ".join(f"{n} {v}" for n, v in self.facts["versions"].items())
        print(f"{self.facts['device']}; Python {self.facts['python']}, {versions}")
        self._print("card")

    def print_load(self):
        """The clocks, once they are known."""
        self._print("load")

    def _print(self, part):
        if part in self.facts:
            print(f"{part}: {json.dumps(self.facts[part])}", flush=True)


def write_json(path, found):
    """Writes it whole or not at all; does nothing without a path."""
    if path is None:
        return
    path = Path(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    temporary.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    temporary.replace(path)


def begun(path, head):
    """What a file of an earlier command holds; {} without one.

    Ends the program where that command had other settings, another device or other
    versions: numbers of both would lie in one table under one name.

    Args:
        path: of the file, or None.
        head: `benchmark`, `settings` and `machine` of this command.
    """
    if path is None or not Path(path).exists():
        return {}
    found = json.loads(Path(path).read_text(encoding="utf-8"))
    before, now = (
        dict(_origin({key: part.get(key) for key in head})) for part in (found, head)
    )
    apart = [
        f"{name} {before.get(name)}, here {now.get(name)}"
        for name in {**before, **now}
        if before.get(name) != now.get(name)
    ]
    if apart:
        sys.exit(f"{path} has {'; '.join(apart)}: give another file for --json")
    return found


def _origin(part, name=""):
    """`(name, value)` of all that numbers depend on, names joined by dots."""
    if not isinstance(part, dict):
        yield name.removeprefix("."), part
        return
    for key, value in part.items():
        if key != "load":
            yield from _origin(value, f"{name}.{key}")


def print_table(head, rows):
    """Markdown: names of columns, and rows of text."""
    print(f"\n| {' | '.join(head)} |")
    print("|---" * len(head) + "|")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def _versions():
    for name in _PACKAGES:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            yield name, importlib.metadata.version(name)


def _query(fields):
    return [
        "nvidia-smi",
        f"--query-gpu={','.join(fields)}",
        "--format=csv,noheader,nounits",
    ]


def _first_row(text):
    return [value.strip() for value in text.splitlines()[0].split(",")]


def _columns(rows):
    """The numbers of each column; rows that hold anything else are left out."""
    numbers = []
    for row in rows:
        with contextlib.suppress(ValueError):
            numbers.append([float(value) for value in row.split(",")])
    return list(zip(*numbers, strict=False))
