"""Dynamic batching: sentences of many requests, translated together.

One thread runs the model, since a compiled program uses all cores. Meanwhile more
sentences arrive; the next batch takes the sentence whose turn it is, see `turns.py`,
and others that are not longer and have the same options.
"""

import math
import sys
import threading
import time
import traceback
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterable
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any
from typing import NamedTuple

from keras_transformer.errors import InputError
from keras_transformer.errors import ModelError
from keras_transformer.serving.engine import Codes
from keras_transformer.serving.engine import Engine
from keras_transformer.serving.engine import Options
from keras_transformer.serving.limits import Limits
from keras_transformer.serving.metrics import Metrics
from keras_transformer.serving.turns import Turns
from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.static_shapes import bucket

_MOST_ROWS = 4  # rows of a batch, for each sentence of nearly its length


class QueueFull(Exception):
    """The queue is full: too many sentences are waiting."""


class Stopping(Exception):
    """The server is shutting down, or its model has failed; it accepts no requests."""


class _Item(NamedTuple):
    text: str
    length: int  # source tokens, rounded up as the model pads them
    options: Options
    arrival: float
    future: Future[Any]
    client: Hashable
    request: object
    codes: Codes


class Batcher:
    """A bounded queue in front of an engine.

    Args:
        engine: the engine; only the batcher's thread calls it.
        limits: the limits of batches and queue.
        metrics: the metrics to update.
    """

    def __init__(self, engine: Engine, limits: Limits, metrics: Metrics) -> None:
        self._engine = engine
        self._limits = limits
        self._metrics = metrics
        self._items: list[_Item] = []
        self._turns = Turns()
        self._changed = threading.Condition()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self, prepare: Callable[[], None] = lambda: None) -> None:
        """Calls `prepare` in the model's thread, then starts to translate."""

        def run() -> None:
            try:
                prepare()
                self._run()
            finally:
                self._refuse_the_rest()

        # A daemon thread: a second ctrl-C ends the process, whatever the model does.
        self._thread = threading.Thread(target=run, name="model", daemon=True)
        self._thread.start()

    @property
    def ended(self) -> bool:
        """Whether the model's thread has ended."""
        return self._thread is not None and not self._thread.is_alive()

    def stop(self) -> None:
        """Finishes submitted sentences, then ends the thread."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def submit(
        self,
        texts: Sequence[str],
        lengths: Sequence[int],
        options: Options,
        client: Hashable = None,
        codes: Codes = (None, None),
    ) -> list[Future[Any]]:
        """A future of the hypotheses of each sentence; all are accepted, or none.

        A sentence that is cancelled before its turn is not translated.

        Args:
            texts: the sentences.
            lengths: their source tokens.
            options: the options of their translation.
            client: the client that sent them; clients take turns.
            codes: their languages, for a multilingual model; sentences of several share
                a batch.

        Raises:
            QueueFull: where they do not fit into the queue; its last quarter is
                reserved for clients without waiting sentences.
            Stopping: after `stop`, or where the thread of the model has ended.
        """
        now, request = time.monotonic(), object()
        new = [
            _Item(text, bucket(length), options, now, Future(), client, request, codes)
            for text, length in zip(texts, lengths, strict=True)
        ]
        with self._changed:
            if self._stopping:
                raise Stopping
            if not self._fits(new):
                self._drop_cancelled()
                if not self._fits(new):
                    raise QueueFull
            self._items += new
            self._metrics.waiting.set(len(self._items))
            self._changed.notify_all()
        return [item.future for item in new]

    def _fits(self, new: list[_Item]) -> bool:
        most = self._limits.queue_sentences
        total = len(self._items) + len(new)
        if total <= most - most // 4 or not new:
            return True
        client = new[0].client
        return total <= most and all(item.client != client for item in self._items)

    # === The thread of the model ===

    def _run(self) -> None:
        while (batch := self._next_batch()) is not None:
            live = [
                item for item in batch if item.future.set_running_or_notify_cancel()
            ]
            try:
                if live:
                    self._translate(live)
            finally:  # an error that ends this thread leaves no client waiting
                _refuse(item for item in live if not item.future.done())

    def _refuse_the_rest(self) -> None:
        with self._changed:
            self._stopping = True
            rest, self._items = self._items, []
        _refuse(item for item in rest if item.future.set_running_or_notify_cancel())

    def _next_batch(self) -> list[_Item] | None:
        """Waits for the next batch; None when all is finished and the server stops."""
        with self._changed:
            while not self._items:
                if self._stopping:
                    return None
                self._changed.wait()
            self._wait_for_company()
            self._drop_cancelled()
            batch = self._choose() if self._items else []
            batch_items = set(map(id, batch))
            self._items = [item for item in self._items if id(item) not in batch_items]
            self._metrics.waiting.set(len(self._items))
        return batch

    def _wait_for_company(self) -> None:
        end = self._items[0].arrival + self._limits.wait_seconds
        while len(self._items) < self._limits.batch_size and not self._stopping:
            rest = end - time.monotonic()
            if rest <= 0:
                return
            self._changed.wait(rest)

    def _choose(self) -> list[_Item]:
        """The next sentence with others of its length, and shorter ones in empty rows.

        All rows are padded to the longest: a longer sentence, which would slow down all
        of them, waits for its turn, and much shorter ones only fill empty rows.
        """
        waiting = self._turns.ordered(self._items)
        first = waiting[0]
        alike = [
            item
            for item in waiting
            if item.options == first.options and item.length <= first.length
        ]
        alike.sort(key=lambda item: -item.length)  # stable: by turn
        near = sum(2 * item.length > first.length for item in alike)
        sizes = self._limits.row_counts(first.length)
        # A large program with few rows costs more than several runs of a small one.
        size = [size for size in sizes if size <= _MOST_ROWS * near][-1]
        self._turns.took(alike[:size])
        return alike[:size]

    def _drop_cancelled(self) -> None:
        self._items = [item for item in self._items if not item.future.cancelled()]

    def _translate(self, items: list[_Item]) -> None:
        texts = [item.text for item in items]
        codes = [[item.codes for item in items]] if self._engine.languages else []
        try:
            with self._metrics.batch(len(items)):
                rows = self._engine.translate(texts, items[0].options, *codes)
                if len(rows) != len(items):
                    raise RuntimeError(
                        f"the engine gave {len(rows)} rows for {len(items)} sentences"
                    )
                _check_numbers(rows)
        except Exception as error:
            if len(items) == 1:
                items[0].future.set_exception(error)
                return
            if not isinstance(error, InputError):
                # Retried alone, each may succeed, and the fault would stay unnoticed.
                traceback.print_exception(error, file=sys.stderr)
            for item in items:  # one bad sentence fails alone
                self._translate([item])
            return
        for item, hypotheses in zip(items, rows, strict=True):
            item.future.set_result(hypotheses)


def _check_numbers(found: list[list[Hypothesis]]) -> None:
    if any(math.isnan(h.score) for hypotheses in found for h in hypotheses):
        raise ModelError(
            "the model gives scores that are NaN: its weights are damaged, or its "
            "precision is too low; serve another model"
        )


def _refuse(items: Iterable[_Item]) -> None:
    for item in items:
        item.future.set_exception(Stopping())
