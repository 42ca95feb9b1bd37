"""TensorBoard events without TensorFlow, through tensorboardX."""

from __future__ import annotations

import contextlib
import functools
import importlib
import time
import types
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from keras_transformer.hiding import hidden


class Events:
    """TensorBoard event writer without a thread.

    tensorboardX's `SummaryWriter` writes in a thread that a full disk ends; later calls
    would then block for ever.

    Args:
        folder: an existing folder for this run only.
        step: the step where the run resumes; TensorBoard hides later events of other
            files.

    Methods raise `ImportError` where tensorboardX is missing, and `OSError`; after that
    the next event begins a new file.
    """

    def __init__(self, folder: Path, step: int) -> None:
        self.folder = folder
        self.step = step
        self._file: Any = None  # opened with the first event

    def add_scalars(self, step: int, values: Mapping[str, float | None]) -> None:
        """Numbers of a step: `val_bleu` under validation, the others under training."""
        scalar = _tensorboard_x("summary").scalar
        summaries = []
        for name, value in values.items():
            part = name.removeprefix("val_")
            group = "training" if part == name else "validation"
            if value is not None:
                summaries.append(scalar(f"{group}/{part}", value))
        self._write(step, summaries)

    def add_samples(
        self,
        step: int,
        sources: Sequence[str],
        hypotheses: Sequence[str],
        references: Sequence[str],
    ) -> None:
        """Writes translations of a step as a table."""
        head = [("source", "model", "reference"), ("---",) * 3]
        rows = [*head, *zip(sources, hypotheses, references, strict=True)]
        table = "\n".join(f"| {' | '.join(map(_cell, row))} |" for row in rows)
        self._write(step, [_tensorboard_x("summary").text("samples", table)])

    def close(self) -> None:
        """Closes the file, if there is one."""
        if self._file is not None:
            file, self._file = self._file, None
            file.close()

    def _write(self, step: int, summaries: Sequence[Any]) -> None:
        new_event = _tensorboard_x("proto.event_pb2").Event
        events = [
            new_event(wall_time=time.time(), step=step, summary=summary)
            for summary in summaries
        ]
        try:
            if self._file is None:
                self._open()
            self._put(*events)
        except OSError:
            with contextlib.suppress(OSError):
                self.close()  # nothing is written after an incomplete event
            raise
        self.step = step

    def _open(self) -> None:
        # TensorBoard reads the files of a run in the order of their names.
        path = self.folder / f"events.out.tfevents.{time.time_ns()}"
        self._file = _tensorboard_x("record_writer").RecordWriter(str(path))
        proto = _tensorboard_x("proto.event_pb2")
        start = proto.SessionLog(status=proto.SessionLog.START)
        self._put(
            proto.Event(wall_time=time.time(), file_version="brain.Event:2"),
            proto.Event(wall_time=time.time(), step=self.step + 1, session_log=start),
        )

    def _put(self, *events: Any) -> None:
        for event in events:
            self._file.write(event.SerializeToString())
        self._file.flush()


@functools.cache
def _tensorboard_x(name: str) -> types.ModuleType:
    """A module of tensorboardX, loaded without PyTorch.

    tensorboardX loads PyTorch, where installed, only for tensors: it takes a second and
    200 MB, and after TensorFlow it can crash the process.
    """
    with hidden("torch"):
        return importlib.import_module(f"tensorboardX.{name}")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
