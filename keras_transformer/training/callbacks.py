"""Callbacks for `model.fit`: progress in words, BLEU after each epoch, a clean stop."""

import contextlib
import datetime
import math
import os
import signal
import time

import keras
import numpy as np

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.evaluation import evaluate
from keras_transformer.training.report import say

_HANGUP = getattr(signal, "SIGHUP", None)  # Windows has none


class Progress(keras.callbacks.Callback):
    """Prints a line with loss, rate, tokens a second and the time left.

    It may be given to one `fit` after the other: the time between them counts for
    nothing.

    Args:
        step: steps done before this `fit`.
        steps: steps of the whole training.
        tokens_per_step: target tokens of a mean batch.
        interval: seconds of training between lines.
    """

    def __init__(self, step, steps, tokens_per_step, interval=20.0):
        super().__init__()
        self.step = step
        self.steps = steps
        self.tokens_per_step = tokens_per_step
        self.interval = interval
        self._seen = (0.0, step)  # (seconds of training, step) of the last line
        self._seconds = 0.0  # in earlier calls of `fit`

    def on_train_begin(self, logs=None):
        self._began = time.monotonic()

    def on_train_end(self, logs=None):
        self._seconds += time.monotonic() - self._began

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        now = self._seconds + time.monotonic() - self._began
        before, step = self._seen
        if now - before < self.interval and self.step < self.steps:
            return
        speed = (self.step - step) / max(now - before, 1e-9)
        left = datetime.timedelta(seconds=int((self.steps - self.step) / speed))
        values = "  ".join(f"{name} {float(v):.4g}" for name, v in (logs or {}).items())
        say(
            f"step {self.step}/{self.steps}  {values}  "
            f"{speed * self.tokens_per_step:,.0f} tokens/s  "
            f"{left} left"
        )
        self._seen = (now, self.step)


class TranslationScores(keras.callbacks.Callback):
    """BLEU of the model's translations in the logs of each epoch, as `val_bleu`.

    Args:
        translator: a `Translator` of the model that is fitted.
        sources: lines to translate.
        references: their translations.
        arguments: further arguments of `Translator.translate`.

    Put it before callbacks that read `val_bleu`.
    """

    def __init__(self, translator, sources, references, **arguments):
        super().__init__()
        self.translator = translator
        self.sources = sources
        self.references = references
        self.arguments = arguments

    def on_epoch_end(self, epoch, logs=None):
        _ = self.model  # under JAX, gives the layers the weights of this moment
        hypotheses = self.translator.translate(self.sources, **self.arguments)
        (bleu,) = evaluate(hypotheses, self.references, metrics=("bleu",))
        logs["val_bleu"] = bleu.score


class StopOnSignal(keras.callbacks.Callback):
    """Lets a signal end `fit` after the step that is running.

    SIGINT (ctrl-C) or SIGTERM, of which a second one ends it at once; or SIGHUP of a
    terminal that closes, unless `nohup` keeps it away.

    Args:
        agree: whether it holds on any of the processes that train together; all of
            them ask after the same step.

    Attributes:
        signal: the number of the signal that came, or None; SIGTERM where it came to
            another process.
        step: steps done since `fit` began.
    """

    def __init__(self, agree=bool):
        super().__init__()
        self.agree = agree
        self.signal = None
        self.step = 0
        self._before = {}

    def on_train_begin(self, logs=None):
        self.step = 0

    def on_train_batch_end(self, batch, logs=None):
        self.step += 1
        if self.agreed():
            self.model.stop_training = True

    def agreed(self):
        """Whether a signal came to any process, which is then `signal` in all."""
        told = self.agree(self.signal is not None)
        if told:
            self.signal = self.signal or signal.SIGTERM
        return told

    def __enter__(self):
        numbers = [signal.SIGINT, signal.SIGTERM]
        if _HANGUP and signal.getsignal(_HANGUP) != signal.SIG_IGN:
            numbers.append(_HANGUP)
        for number in numbers:
            self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, *_):
        self._restore()

    def _note(self, number, frame):
        self.signal = number
        if number == _HANGUP:  # comes twice: from the kernel and from the shell
            return
        self._restore()
        name = signal.Signals(number).name
        # Not `print`, which must not be called while it is at work. What reads it may
        # have ended by the same ctrl-C.
        with contextlib.suppress(OSError):
            os.write(2, f"\n{name}: stops after this step; again: at once\n".encode())

    def _restore(self):
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before = {}


class ResumeState(keras.callbacks.Callback):
    """The first step goes on as if `fit` had not begun anew.

    `fit` sets metrics to zero when it begins, and on PyTorch draws from the same random
    numbers as dropout: what a step draws would depend on where a run was stopped.

    Args:
        metrics: `(variable, value)` of metrics that go on counting.
    """

    def __init__(self, metrics=()):
        super().__init__()
        self._metrics = metrics
        self._random_state = backends.random_state()

    def on_train_batch_begin(self, batch, logs=None):
        for variable, value in self._metrics:
            variable.assign(value)
        if self._random_state is not None:
            backends.restore_random_state(self._random_state)
        self._metrics, self._random_state = (), None


class StopOnNaN(keras.callbacks.Callback):
    """Ends `fit` after a step whose loss is not a finite number.

    Attributes:
        batch: the number of that step since `fit` began, from 0; None so far.
    """

    def __init__(self):
        super().__init__()
        self.batch = None

    def on_train_batch_end(self, batch, logs=None):
        # The mean of all losses since `fit` began: finite until the first that is not.
        if not math.isfinite(logs["loss"]):
            self.batch = batch
            self.model.stop_training = True


class AverageWeights(keras.callbacks.Callback):
    """At the end of `fit`, the model is the mean of its last or best epochs.

    For plain `fit`; a run of `train` averages its checkpoints.

    Args:
        last: epochs whose weights are averaged; they are kept in memory.
        best: as many epochs of the best `monitor`, instead of the last ones; of two
            equal ones the earlier.
        monitor: a name in the logs of an epoch, such as `"val_bleu"`.
        mode: `"min"` or `"max"`: which values of it are good.

    Raises:
        InputError: where the logs do not have `monitor`, or for another mode.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
    """

    def __init__(self, last=5, *, best=None, monitor="val_loss", mode="min"):
        super().__init__()
        if mode not in ("min", "max"):
            raise InputError(f"mode must be 'min' or 'max', got {mode!r}")
        self.count = last if best is None else best
        self.monitor = None if best is None else monitor
        self.sign = -1.0 if mode == "min" else 1.0
        self._kept = []  # (rank, weights), the best first

    def on_train_begin(self, logs=None):
        self._kept = []

    def on_epoch_end(self, epoch, logs=None):
        self._kept.append((self._rank(epoch, logs or {}), self.model.get_weights()))
        self._kept.sort(key=lambda item: item[0], reverse=True)
        del self._kept[self.count :]

    def _rank(self, epoch, logs):
        if self.monitor is None:
            return epoch
        if self.monitor not in logs:
            raise InputError(
                f"monitor {self.monitor!r} is not in the logs of an epoch, which have "
                f"{', '.join(logs)}; give one of these"
            )
        return self.sign * logs[self.monitor]

    def on_train_end(self, logs=None):
        if self._kept:
            rows = zip(*(weights for _, weights in self._kept), strict=True)
            self.model.set_weights([np.mean(values, axis=0) for values in rows])
