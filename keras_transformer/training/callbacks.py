"""Callbacks for `model.fit`: progress lines, BLEU after each epoch, clean stops."""

from __future__ import annotations

import collections
import contextlib
import datetime
import math
import os
import signal
import threading
import time
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
import numpy as np

from keras_transformer import backends
from keras_transformer.backends import host_memory
from keras_transformer.errors import InputError
from keras_transformer.evaluation import evaluate
from keras_transformer.training.report import say

_LONG = 2.0  # seconds of a step that are told
_HANGUP = getattr(signal, "SIGHUP", None)  # not on Windows


class Progress(keras.callbacks.Callback):
    """Prints a line with loss, rate, tokens a second and the time left.

    It may be used in several `fit` calls: the time between them does not count, nor
    that of steps that waited for their program to be compiled.

    Args:
        step: the number of steps before this `fit`.
        steps: the number of steps of the whole training.
        tokens_per_step: the mean number of target tokens of a batch.
        interval: the seconds of training between lines.
        compiling: a callback before this one in each `fit`, which knows those steps.
    """

    def __init__(
        self,
        step: int,
        steps: int,
        tokens_per_step: float,
        interval: float = 20.0,
        compiling: CompileTime | None = None,
    ) -> None:
        super().__init__()
        self._compiling = compiling
        self._first = step
        self.step = step
        self.steps = steps
        self.tokens_per_step = tokens_per_step
        self.interval = interval
        self._said = 0.0  # seconds of training before the last line
        self._seen = (0.0, 0)  # and (seconds, steps) without those of compiling
        self._seconds = 0.0  # in earlier calls of `fit`

    def on_train_begin(self, logs: Any = None) -> None:
        self._began = time.monotonic()

    def on_train_end(self, logs: Any = None) -> None:
        self._seconds += time.monotonic() - self._began

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        if self._time() - self._said < self.interval and self.step < self.steps:
            return
        values = "  ".join(
            f"{name} {_number(value):.4g}" for name, value in (logs or {}).items()
        )
        # Only now: on JAX, and on a GPU, the values wait for steps that are under way.
        self._said = seconds = self._time()
        say(f"step {self.step}/{self.steps}  {values}{self._speed(seconds)}")

    def _time(self) -> float:
        """Seconds of training in this and earlier calls of `fit`."""
        return self._seconds + time.monotonic() - self._began

    def _speed(self, seconds: float) -> str:
        """Tokens a second since the last line, and the time left at the mean speed.

        Nothing where all steps since then were compiled.
        """
        steps = self.step - self._first
        if self._compiling is not None:
            seconds -= self._compiling.seconds
            steps -= self._compiling.count
        last_seconds, last_steps = self._seen
        duration, number = seconds - last_seconds, steps - last_steps
        if number < 1:
            return ""
        self._seen = (seconds, steps)
        rate = self.tokens_per_step * number / max(duration, 1e-9)
        left = int((self.steps - self.step) * max(seconds, 1e-9) / steps)
        return f"  {rate:,.0f} tokens/s  {datetime.timedelta(seconds=left)} left"


class TranslationScores(keras.callbacks.Callback):
    """BLEU of the model's translations in the logs of each epoch, as `val_bleu`.

    Args:
        translator: a `Translator` of the trained model.
        sources: lines to translate.
        references: their translations.
        arguments: further arguments of `Translator.translate`.

    Put it before callbacks that read `val_bleu`.
    """

    def __init__(
        self, translator: Any, sources: Sequence[str], references: Any, **arguments: Any
    ) -> None:
        super().__init__()
        self.translator = translator
        self.sources = sources
        self.references = references
        self.arguments = arguments

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        _ = self.model  # under JAX, writes the current weights to the layers
        hypotheses = self.translator.translate(self.sources, **self.arguments)
        (bleu,) = evaluate(hypotheses, self.references, metrics=("bleu",))
        logs["val_bleu"] = bleu.score


class StopOnSignal(keras.callbacks.Callback):
    """Ends `fit` after the current step when a signal arrives.

    Signals are SIGINT (ctrl-C) and SIGTERM, where a second one ends it at once, and
    SIGHUP of a closing terminal, unless `nohup` is used.

    Args:
        agree: a function that returns whether a flag is set in any training process;
            all processes call it after the same step.

    Attributes:
        signal: the number of the received signal, or None; SIGTERM where another
            process received it.
        step: the number of steps since `fit` began.
    """

    def __init__(self, agree: Callable[[bool], bool] = bool) -> None:
        super().__init__()
        self.agree = agree
        self.signal: int | None = None
        self.step = 0
        self._before: dict[int, Any] = {}

    def on_train_begin(self, logs: Any = None) -> None:
        self.step = 0

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.step += 1
        if self.agreed():
            self.model.stop_training = True

    def agreed(self) -> int | None:
        """The `signal` of all processes, where any of them received one."""
        if self.agree(self.signal is not None):
            self.signal = self.signal or signal.SIGTERM
            return self.signal
        return None

    def __enter__(self) -> Self:
        numbers = [signal.SIGINT, signal.SIGTERM]
        if _HANGUP and signal.getsignal(_HANGUP) != signal.SIG_IGN:
            numbers.append(_HANGUP)
        for number in numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_: Any) -> None:
        self._restore()

    def _note(self, number: int, frame: Any) -> None:
        self.signal = number
        if number == _HANGUP:  # arrives twice: from the kernel and from the shell
            return
        self._restore()
        name = signal.Signals(number).name
        # Not `print`, which is not reentrant. The reader of the pipe may have ended by
        # the same ctrl-C.
        with contextlib.suppress(OSError):
            os.write(2, f"\n{name}: stops after this step; again: at once\n".encode())

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class ResumeState(keras.callbacks.Callback):
    """Restores metrics and random state at the first step of a new `fit`.

    `fit` resets metrics when it begins, and on PyTorch draws from the random state of
    dropout: dropout masks would depend on where a run was stopped.

    Args:
        metrics: `(variable, value)` of metrics that continue.
    """

    def __init__(self, metrics: Any = ()) -> None:
        super().__init__()
        self._metrics = metrics
        self._random_state = backends.random_state()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        for variable, value in self._metrics:
            variable.assign(value)
        if self._random_state is not None:
            backends.restore_random_state(self._random_state)
        self._metrics, self._random_state = (), None


class StopOnNaN(keras.callbacks.Callback):
    """Ends `fit` after a step whose loss is not a finite number.

    Reading a loss waits for its step. So each loss is read `lag` steps later: the
    device has work while Python prepares the next steps, and never more than `lag`.

    Args:
        lag: the number of steps that may follow such a loss.

    Attributes:
        batch: the number of that step since `fit` began, from 0; None before.
    """

    def __init__(self, lag: int = 8) -> None:
        super().__init__()
        self.lag = lag
        self.batch: int | None = None
        self._losses: collections.deque[tuple[int, Any]] = collections.deque()

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self._losses.append((batch, logs["loss"]))
        if len(self._losses) > self.lag:
            self._read()

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        while self._losses:
            self._read()

    def _read(self) -> None:
        batch, loss = self._losses.popleft()
        # The mean of all losses since `fit` began: finite until the first non-finite
        # loss.
        if self.batch is None and not math.isfinite(_number(loss)):
            self.batch = batch
            self.model.stop_training = True


class CompileTime(keras.callbacks.Callback):
    """Says what a long step waits for, and once how long all such steps took.

    It may be used in several `fit` calls. The time is that of the first step of each
    shape, which waits for its program to be compiled, or read from a cache.

    Args:
        shapes: the number of shapes that batches have, each with a program of its own;
            0 where a graph serves several.
        say: a function that receives the messages.

    Attributes:
        shape_of: a function from the number of a step since `fit` began to the shapes
            of the arrays of its batch.
        count: the number of such steps.
        seconds: their time.
    """

    def __init__(self, shapes: int, say: Callable[[str], None]) -> None:
        super().__init__()
        self.shape_of: Callable[[int], Any] = int
        self.count = 0
        self.seconds = 0.0
        self._say = say
        self._shapes = shapes
        self._seen: set[Any] = set()
        self._began = 0.0
        self._timer: threading.Timer | None = None

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._began = time.monotonic()
        if len(self._seen) < (self._shapes or 2):  # a thread, not for each step
            self._timer = threading.Timer(_LONG, self._tell, [batch])
            self._timer.daemon = True
            self._timer.start()

    def _tell(self, batch: int) -> None:
        """Says what a long step waits for, in another thread."""
        shape = self.shape_of(batch)  # by now its batch is read
        if shape is not None and shape not in self._seen:
            self._say(f"compiling for {_sizes(shape)} ...")

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        self.close()
        shape = self.shape_of(batch)
        if shape in self._seen:
            return
        self._seen.add(shape)
        self.count += 1
        self.seconds += time.monotonic() - self._began
        if len(self._seen) == self._shapes:
            self._say(
                f"the training step is compiled for all {self._shapes} shapes: "
                f"{self.seconds:.1f} s"
            )

    def close(self) -> None:
        """No step is under way any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


class ReleaseMemory(keras.callbacks.Callback):
    """Returns memory to the system where a step leaves much of the heap free.

    XLA takes the temporaries of a step as one buffer, whose size depends on the shapes
    of the batch. What else is allocated comes to lie within the place of an earlier
    buffer, and the next large one needs a new place. A heap that keeps its memory, see
    `cli/allocator.py`, would in the end hold several such places: gigabytes at `base`.

    Args:
        limit: the bytes that the heap may keep; None: a sixteenth of the memory that
            this process may use.
    """

    def __init__(self, limit: float | None = None) -> None:
        super().__init__()
        self.limit = host_memory.memory_limit() / 16 if limit is None else limit

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        # The buffer of the step that is under way is not free.
        if host_memory.free_heap_memory() > self.limit:
            host_memory.give_back()


class UnreadLogs(keras.callbacks.CallbackList):
    """Callbacks that get the logs of each step as the backend's tensors.

    Keras' own list turns them into numbers after each step, and so waits for it.

    Args:
        callbacks: the callbacks.
        model: the model that they are of.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any) -> None:
        super().__init__([*callbacks], add_history=True, model=model)

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        for callback in self.callbacks:
            callback.on_train_batch_begin(batch, logs)

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        for callback in self.callbacks:
            callback.on_train_batch_end(batch, logs)


class AverageWeights(keras.callbacks.Callback):
    """Sets the model to the mean of its last or best epochs at the end of `fit`.

    For plain `fit`; runs of `train` average checkpoints instead. Factors of LoRA are
    averaged one by one, which is not the mean of their products: a run averages these.

    Args:
        last: the number of last epochs to average; their weights are kept in memory.
        best: the number of epochs with the best `monitor`, instead of the last ones;
            ties go to the earlier epoch.
        monitor: a key of an epoch's logs, such as `"val_bleu"`.
        mode: `"min"` or `"max"`: which values are better.

    Raises:
        InputError: where the logs lack `monitor`, or for another mode.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
    """

    def __init__(
        self,
        last: int | None = 5,
        *,
        best: int | None = None,
        monitor: str = "val_loss",
        mode: str = "min",
    ) -> None:
        super().__init__()
        if mode not in ("min", "max"):
            raise InputError(f"mode must be 'min' or 'max', got {mode!r}")
        self.count = last if best is None else best
        self.monitor = None if best is None else monitor
        self.sign = -1.0 if mode == "min" else 1.0
        self._kept: list[tuple[float, Any]] = []  # (rank, weights), the best first

    def on_train_begin(self, logs: Any = None) -> None:
        self._kept = []

    def on_epoch_end(self, epoch: int, logs: Any = None) -> None:
        self._kept.append((self._rank(epoch, logs or {}), self.model.get_weights()))
        self._kept.sort(key=lambda item: item[0], reverse=True)
        del self._kept[self.count :]

    def _rank(self, epoch: int, logs: Any) -> float:
        if self.monitor is None:
            return epoch
        if self.monitor not in logs:
            raise InputError(
                f"monitor {self.monitor!r} is not in the logs of an epoch, which have "
                f"{', '.join(logs)}; give one of these"
            )
        return self.sign * logs[self.monitor]

    def on_train_end(self, logs: Any = None) -> None:
        if self._kept:
            rows = zip(*(weights for _, weights in self._kept), strict=True)
            self.model.set_weights([np.mean(values, axis=0) for values in rows])


def _sizes(shapes: Any) -> str:
    """The shapes of the arrays of a batch, for people."""
    try:
        (rows, length), *others = dict.fromkeys(shapes)
    except (TypeError, ValueError):  # not of a batch of source and target
        return "a new shape"
    tokens = " and ".join(str(shape[-1]) for shape in ((rows, length), *others))
    return f"batches of {rows} sentences of {tokens} tokens"


def _number(value: Any) -> float:
    """A value of the logs of a step, of one element."""
    return keras.ops.convert_to_numpy(value).item()
