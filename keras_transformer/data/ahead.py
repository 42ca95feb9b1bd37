"""Batches built ahead, in order, by a thread beside the training steps."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from typing import Any
from typing import NamedTuple
from typing import Self

import keras
import numpy as np


class _Built(NamedTuple):
    """A batch and its place, or the error of building it."""

    place: int
    batch: Any
    error: Exception | None = None


class AheadBatches(keras.utils.PyDataset):
    """The batches of `TokenBatches.from_step` for `fit`, built in another thread.

    In each epoch a thread builds batch 0, 1, ... in order, `depth` of them before they
    are needed. An error of building a batch is raised when that batch is read, after
    all batches before it. A batch that is read out of order is built at once. Used as a
    context manager, it leaves no thread behind.

    Args:
        batches: the batches; each is a function of its index alone.
        ready: a function of each batch, run in the thread, whose result is read: for
            checks, and for the transfer to the device.
        depth: the number of batches that are built ahead.

    Attributes:
        special_ids: those of the batches.
        is_packed: whether they are packed, see `PackedBatches`.
        shapes: for each index that was read in this epoch, the shapes of its arrays.
        error: the last error that reading raised; None before.
    """

    num_batches = None
    is_checked = True  # if `ready` checks

    def __init__(
        self, batches: Any, ready: Callable[[Any], Any], depth: int = 2
    ) -> None:
        super().__init__(workers=0)
        self.batches = batches
        self.special_ids = batches.special_ids
        self.adds_source_end = getattr(batches, "adds_source_end", None)
        self.is_packed = batches.is_packed
        self.depth = depth
        self.shapes: dict[int, tuple[Any, ...]] = {}
        self.error: Exception | None = None
        self._ready = ready
        self._building = threading.Lock()
        self._changed = threading.Condition()
        self._built: deque[_Built] = deque()
        self._thread: threading.Thread | None = None

    def __getitem__(self, index: int) -> Any:
        built = self._take(index) or self._build(index)
        if built.error is not None:
            self.error = built.error
            raise built.error
        arrays = keras.tree.flatten(built.batch)
        self.shapes[index] = tuple(tuple(np.shape(array)) for array in arrays)
        return built.batch

    def on_epoch_begin(self) -> None:
        self.batches.on_epoch_begin()
        self._end()
        self.shapes.clear()
        # A daemon: a process that ends does not wait for it.
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def on_epoch_end(self) -> None:
        self.batches.on_epoch_end()
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def _take(self, index: int) -> _Built | None:
        """What the thread has built; None where it does not build that."""
        with self._changed:
            while True:
                while self._built and self._built[0].place < index:
                    self._built.popleft()
                self._changed.notify_all()
                if self._built:
                    is_next = self._built[0].place == index
                    return self._built.popleft() if is_next else None
                if self._thread is None:
                    return None
                self._changed.wait()

    def _build(self, index: int) -> _Built:
        with self._building:
            try:
                return _Built(index, self._ready(self.batches[index]))
            except Exception as error:
                return _Built(index, None, error)

    def _run(self) -> None:
        """The work of the thread, until `_end` or an error."""
        thread, index = threading.current_thread(), 0
        while True:
            built = self._build(index)
            with self._changed:
                if self._thread is not thread:
                    return
                self._built.append(built)
                self._changed.notify_all()
                if built.error is not None:
                    self._thread = None
                    return
                self._changed.wait_for(
                    lambda: len(self._built) < self.depth or self._thread is not thread
                )
            index += 1

    def _end(self) -> None:
        with self._changed:
            thread, self._thread = self._thread, None
            self._built.clear()
            self._changed.notify_all()
        if thread is not None:
            thread.join()
