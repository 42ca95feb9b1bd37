"""Logs of a run: `logs/metrics.jsonl`, TensorBoard events, `curve.png`.

with RunLog(folder, step, say) as log:  # step: of the checkpoint; 0 for a new run
    log.add(100, {"loss": 3.2, "learning_rate": 1e-3, "val_bleu": 31.0})
    log.add_samples(100, sources, hypotheses, references)
    log.lines                           # [{"step": 100, "loss": 3.2, ...}]
"""

from __future__ import annotations

import contextlib
import errno
import importlib.util
import json
import math
import os
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.errors import InputError
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.whole_file import write_whole
from keras_transformer.training import curve
from keras_transformer.training.events import Events

_METRICS = "metrics.jsonl"
_CURVE = "curve.png"
_EVENTS = "TensorBoard events"
_NEEDS = {_EVENTS: "tensorboardX", _CURVE: "matplotlib"}


class RunLog:
    """The log folder `logs` of a run, with each step once, resumed or not.

    Outputs that cannot be written (a full disk) or are not installed are reported once
    and do not stop training; lines of `metrics.jsonl` are written later, once possible.

    Args:
        folder: the run folder.
        step: the step where the run resumes; later lines are dropped. 0 drops all.
        say: a function that receives messages for people.

    Attributes:
        lines: all logged lines, oldest first: `step` and the values of `add`.

    Raises:
        InputError: where `metrics.jsonl` cannot be read or written when it is opened.

    Example:

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with RunLog(folder, 0, print) as log:
    ...         log.add(100, {"loss": 3.5})
    ...         log.add(200, {"loss": 3.25})
    ...     RunLog(folder, 100, print).lines
    [{'step': 100, 'loss': 3.5}]
    """

    def __init__(
        self, folder: str | Path, step: int, say: Callable[[str], None]
    ) -> None:
        self.folder = Path(folder, "logs")
        self.say = say
        path = self.folder / _METRICS
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            plain_file(self.folder, _METRICS)
            self.lines = _keep_lines(path, step)
        except OSError as error:
            raise InputError(
                f"cannot read and write {path}: {error.strerror}; check its permissions"
            ) from None
        self._num_written = len(self.lines)
        self._num_drawn = 0
        self._failed: set[str] = set()
        self._events = Events(self.folder, step)
        self._say_what_is_missing()

    def add(self, step: int, values: Mapping[str, float]) -> None:
        """Logs numbers of a step; redraws the curve where a key begins with `val_`.

        Args:
            step: the number of updates; higher than in the last call.
            values: numbers such as `loss`, `nll`, `learning_rate`, `val_nll`,
                `val_bleu`.
        """
        plain = {name: _plain(value) for name, value in values.items()}
        self.lines.append({"step": step, **plain})
        with self._going_on(_METRICS):
            self._append()
        with self._going_on(_EVENTS):
            self._events.add_scalars(step, plain)
        if any(name.startswith("val_") for name in values):
            with self._going_on(_CURVE):
                self._draw()

    def add_samples(
        self,
        step: int,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
    ) -> None:
        """Shows translations of a step in TensorBoard."""
        with self._going_on(_EVENTS):
            self._events.add_samples(step, sources, hypotheses, references)

    def close(self) -> None:
        """Writes pending lines, draws the curve, closes the TensorBoard event file."""
        with self._going_on(_METRICS):
            self._append()
        with self._going_on(_CURVE):
            self._draw()
        with self._going_on(_EVENTS):
            self._events.close()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _append(self) -> None:
        new = self.lines[self._num_written :]
        if not new:
            return
        data = "".join(f"{json.dumps(line)}\n" for line in new).encode()
        # Unbuffered: one write, so that a kill cuts the last line or nothing.
        with (self.folder / _METRICS).open("ab", buffering=0) as file:
            end = file.tell()
            if file.write(data) < len(data):  # the disk was full half-way
                file.truncate(end)
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        self._num_written = len(self.lines)

    def _draw(self) -> None:
        if self._num_drawn == len(self.lines):
            return
        picture = curve.draw(self.lines)
        if picture is not None:
            write_whole(self.folder / _CURVE, picture)
        self._num_drawn = len(self.lines)

    def _say_what_is_missing(self) -> None:
        missing = {
            output: package
            for output, package in _NEEDS.items()
            if importlib.util.find_spec(package) is None
        }
        self._failed |= missing.keys()
        if missing:
            self.say(
                f"not written: {' and '.join(missing)}; to get them, run pip install "
                f"{' '.join(missing.values())}"
            )

    @contextlib.contextmanager
    def _going_on(self, output: str) -> Iterator[None]:
        """Lets training continue where an output fails; warns the first time."""
        try:
            yield
        except (OSError, ImportError) as error:
            if output not in self._failed:
                self._failed.add(output)
                reason = getattr(error, "strerror", None) or error
                self.say(
                    f"warning: cannot write {output} in {self.folder}: {reason}; "
                    "training continues"
                )


def _keep_lines(path: Path, step: int) -> list[dict[str, Any]]:
    """The lines up to a step; removes later ones and an incomplete last line."""
    if not path.exists():
        return []
    content = path.read_bytes()
    new_content, lines = b"", []
    for number, text in enumerate(content.splitlines(keepends=True), 1):
        if not text.endswith(b"\n"):
            break
        try:
            line = json.loads(text)
            is_kept = line["step"] <= step
        except (ValueError, TypeError, KeyError, RecursionError):
            raise InputError(
                f"{path}, line {number}: not a JSON object with a step; remove that "
                f"line"
            ) from None
        if is_kept:
            new_content += text
            lines.append(line)
    if new_content != content:
        write_whole(path, new_content)
    return lines


def _plain(value: Any) -> float | None:
    """A JSON number (None for NaN) with the digits of float32."""
    value = float(value)
    return float(f"{value:.8g}") if math.isfinite(value) else None
