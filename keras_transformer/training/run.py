"""Training runs: from a run config to a trained model folder, resumable."""

from __future__ import annotations

import contextlib
import dataclasses
import signal
import time
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from typing import NamedTuple
from typing import cast

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer import learned_metrics
from keras_transformer.backends.distribution import Distribution
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.errors import InputError
from keras_transformer.evaluation import Score
from keras_transformer.evaluation import evaluate
from keras_transformer.models import weights
from keras_transformer.training import advice
from keras_transformer.training import own_callbacks
from keras_transformer.training import report
from keras_transformer.training import run_folder
from keras_transformer.training import run_opening
from keras_transformer.training.assembly import Parts
from keras_transformer.training.assembly import build_parts
from keras_transformer.training.averaging import average_checkpoints
from keras_transformer.training.averaging import steps_to_deliver
from keras_transformer.training.averaging import weights_reader
from keras_transformer.training.averaging import without_damaged
from keras_transformer.training.callbacks import CompileTime
from keras_transformer.training.callbacks import Progress
from keras_transformer.training.callbacks import ResumeState
from keras_transformer.training.callbacks import StopOnNaN
from keras_transformer.training.callbacks import StopOnSignal
from keras_transformer.training.checkpoints import Snapshot
from keras_transformer.training.checkpoints import list_checkpoints
from keras_transformer.training.checkpoints import metric_variables
from keras_transformer.training.checkpoints import remove_checkpoints
from keras_transformer.training.checkpoints import save_checkpoint
from keras_transformer.training.checkpoints import take_snapshot
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config import TrainingSection
from keras_transformer.training.config import as_begun
from keras_transformer.training.corpora import languages_of
from keras_transformer.training.distribution import open_distribution
from keras_transformer.training.logs import RunLog
from keras_transformer.training.moving_average import averaged
from keras_transformer.training.own_callbacks import OwnCallbacks
from keras_transformer.training.own_loss import loss_factory
from keras_transformer.training.run_state import Before
from keras_transformer.training.run_state import State
from keras_transformer.training.run_state import regular_checkpoints
from keras_transformer.training.run_state import restored
from keras_transformer.training.run_state import scored_checkpoints
from keras_transformer.training.stepping import train_steps
from keras_transformer.training.validation import best_steps
from keras_transformer.training.validation import fruitless
from keras_transformer.waiting import waiting

_BOOTSTRAP = 1000  # bootstrap samples, for the confidence intervals of the test


class _Tested(NamedTuple):
    """The translations of the test text, and their scores."""

    text: ParallelText
    hypotheses: list[str]
    scores: list[Score]


class Interrupted(Exception):
    """A signal ended the run, after a checkpoint was written.

    Attributes:
        exit_code: 128 + the number of the signal: 130 for ctrl-C, 143 for SIGTERM, 129
            for SIGHUP.
    """

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


def train(config: RunConfig, callbacks: Sequence[Any] = ()) -> list[Score] | None:
    """Trains a model by a `RunConfig`, or resumes its run folder.

    Prints progress to standard error and the scores of the test text to standard
    output. Leaves `averaged/` and `best/` in the run folder: model folders.

    Args:
        config: a `RunConfig`.
        callbacks: callbacks of Keras, beside those of `training.callbacks`. They see
            one training whose epochs end at validations, checkpoints and log lines, see
            docs/callbacks.md. Of several processes the first has them.

    Returns:
        The scores of the test text, or None where there is none.

    Raises:
        InputError: where config, data or folders are not valid.
        Interrupted: where a signal stopped it; the run can be resumed.
    """
    training = config.training
    own_callbacks.check(callbacks, "callbacks holds a")
    factories = own_callbacks.factories(config)
    make_loss = loss_factory(config)
    with contextlib.ExitStack() as stack:
        distribution = stack.enter_context(
            open_distribution(training.distribution, training.devices)
        )
        log = None
        say: Callable[[str], None] = _say_nothing
        stored = run_opening.begun_with(config)
        config = as_begun(stored, config)
        if distribution.is_chief:
            say = report.say
            stack.enter_context(run_opening.opened(config, say))
        before = Before(
            int(distribution.chiefs(stored.training.checkpoint_every)),
            not distribution.any(stored.evaluation != config.evaluation),
        )
        for warning in advice.of_training(training):
            say(f"warning: {warning}")
        parts = build_parts(config, distribution, say, make_loss)
        state, metrics = restored(config, parts.translator.model, say, before)
        state.files = run_folder.file_digests(config.output)
        if parts.encoded:
            state.files[run_folder.ENCODED] = parts.encoded
        if distribution.is_chief:
            log = stack.enter_context(RunLog(config.output, state.step, say))
        run = Run(config, distribution, parts, state, metrics, log, say)
        if distribution.is_chief and not run.is_done():
            run.call_back([*own_callbacks.made(factories, config), *callbacks])
        return run.train()


def _say_nothing(text: str) -> None:
    """Ignores a message, in processes other than the chief."""


class Run:
    """A training run: the loop over windows of steps, and its final work.

    Args:
        config: a `RunConfig`.
        distribution: the `Distribution` of the training.
        parts: the `Parts` of `build_parts`: texts, batches, model.
        state: the state from which it continues.
        metrics: `(variable, value)` of a window that was cut in two.
        log: the chief's `RunLog`; None in other processes.
        say: a function that receives messages for people.
    """

    def __init__(
        self,
        config: RunConfig,
        distribution: Distribution,
        parts: Parts,
        state: State,
        metrics: list[tuple[Any, np.ndarray]],
        log: RunLog | None,
        say: Callable[[str], None],
    ) -> None:
        self.config = config
        self.folder = config.output
        self.distribution = distribution
        self.batches, self.translator, self.validation, self.test_text = parts[:4]
        self.metrics_of_user = parts.metrics
        self.model: Any = self.translator.model  # no ensemble, which does not learn
        self.state = state
        self.metrics = metrics
        self.log = log
        self.say = say
        steps = config.training.steps
        self.compiling = self._compile_time()
        self.progress = Progress(
            state.step, steps, self._tokens_per_step(), compiling=self.compiling
        )
        self.own = OwnCallbacks((), self.model, steps)

    def call_back(self, callbacks: Sequence[Any]) -> None:
        """Tells callbacks of the user about the training."""
        self.own = OwnCallbacks(callbacks, self.model, self.config.training.steps)

    def train(self) -> list[Score] | None:
        """See the function `train`."""
        if self.state.lacks_validation:
            self._make_up_validation()
        if self.is_done():
            self.say(f"finished already: {self._why_done()}")
        else:
            self._train()
        metric = self.config.training.best_metric
        if warning := advice.of_the_end(self.state.scores, metric):
            self.say(f"warning: {warning}")
        return self._finish(self.config.training)

    def _train(self) -> None:
        self.own.begin()
        try:
            with StopOnSignal(self.distribution.any) as stop:
                while not self.is_done():
                    self._train_window(stop)
        except Interrupted:
            self.own.end()
            raise
        self.own.end()

    def is_done(self) -> bool:
        """Whether no step is left to train."""
        return self.state.ended or self.state.step >= self.config.training.steps

    def _why_done(self) -> str:
        state, training = self.state, self.config.training
        if state.step >= training.steps:
            return f"{self.folder} has all {state.step} steps"
        return (
            f"{self.folder} ended at step {state.step} of {training.steps}, without "
            "a better validation for too long; increase training.patience to "
            "continue"
        )

    def _compile_time(self) -> CompileTime | None:
        traces = self.model.traces_steps
        if backends.traces_training and not traces:
            return None  # nothing is compiled
        # A graph without XLA serves several shapes.
        by_shape = self.model.jit_compile or traces
        shapes = len(self.batches.shapes) if by_shape else 0
        return CompileTime(shapes, self.say)

    def _tokens_per_step(self) -> float:
        return self.batches.num_tokens / len(self.batches)

    # === The loop ===

    def _train_window(self, stop: StopOnSignal) -> None:
        """Trains up to the next validation, checkpoint or log line, then does that."""
        state, training = self.state, self.config.training
        multiples = [_next_multiple(state.step, every) for every in training.intervals]
        end = min(training.steps, *multiples)
        self.own.begin_epoch(state.step)
        logs = self._fit(end, stop)
        state.is_cut = state.step < end
        if self._regular(state.step) and state.regular is not None:
            state.regular.append(state.step)
        if not state.is_cut:
            self.metrics = []
            if end == training.steps or end % training.validate_every == 0:
                try:
                    logs |= self._validate()
                except Exception:
                    self._keep_steps()
                    raise
            if self.log:
                self.log.add(state.step, logs)
            self.own.end_epoch(state.step, logs)
            if self.distribution.any(self.own.stopped):
                self.say(f"a callback ends the training at step {state.step}")
                state.ended = True
        else:
            variables = metric_variables(self.model)
            self.metrics = [(v, backends.to_numpy(v)) for v in variables]
        number = stop.agreed()  # or another process got it meanwhile
        is_stored = True
        if number or self.is_done() or self._regular(state.step):
            snapshot = take_snapshot(self.model)
            is_stored = not self.distribution.is_chief or self._checkpoint(snapshot)
        if number:
            newest = max(list_checkpoints(self.folder), default=0)
            raise Interrupted(
                f"stopped by {signal.Signals(number).name} at step "
                f"{state.step}; run the same command again to go on from "
                f"{'there' if is_stored else f'step {newest}'}",
                number,
            )

    def _fit(self, end: int, stop: StopOnSignal) -> dict[str, float]:
        state = self.state
        resume = ResumeState(self.metrics)
        # Several devices take one step at a time: where processes agree (`stop`), no
        # other collective operation may be under way.
        alone = self.config.training.distribution == "none"
        nan = StopOnNaN() if alone else StopOnNaN(lag=0)
        progress = [self.progress] if self.distribution.is_chief else []
        began = time.monotonic()
        try:
            logs = train_steps(
                self.model,
                self.batches,
                state.step,
                end,
                [*progress, resume, nan, stop, self.own],
                self.distribution.part,
                self.compiling,
            )
        except Exception:
            if fault := self.batches.pairs.fault:  # TensorFlow has replaced it
                raise fault from None
            raise
        seconds = time.monotonic() - began
        if nan.batch is not None:
            self._refuse_nan(state.step + nan.batch, "the loss of")
        # A non-finite gradient shows only in the loss of the next step.
        if broken := weights.first_broken(weights.weight_values(self.model)):
            self._refuse_nan(state.step + stop.step - 1, f"the weight {broken!r} after")
        state.step += stop.step
        state.seconds += seconds
        rate = self.model.optimizer.learning_rate  # of the next update
        return {
            **logs,
            "learning_rate": float(ops.convert_to_numpy(rate)),
            "tokens_per_second": stop.step * self._tokens_per_step() / seconds,
            "seconds": state.seconds,
        }

    def _refuse_nan(self, index: int, what: str) -> None:
        epoch, batch = divmod(index, len(self.batches))
        newest = max(list_checkpoints(self.folder), default=None)
        raise InputError(
            f"{what} step {index + 1} (batch {batch + 1} of epoch {epoch + 1}) is not "
            f"finite; "
            + (f"the checkpoint of step {newest} is kept; " if newest else "")
            + "lower training.learning_rate, lengthen training.warmup_steps, or set "
            "training.clip_norm, in a new output"
        )

    def _validate(self) -> dict[str, float]:
        if self.validation is None:
            return {}
        state, training = self.state, self.config.training
        with averaged(self.model):
            with waiting(f"step {state.step}: validation", self.say):
                logs, samples = self.validation.run(self.say)
            text = "  ".join(f"{name} {value:.4g}" for name, value in logs.items())
            self.say(f"step {state.step}: {text}")
            # Other hardware may round the score differently, so all processes take the
            # chief's.
            score = self.distribution.chiefs(self.validation.score(logs))
            state.scores.append((state.step, score))
            best = best_steps(state.scores, 1)[0]
            if self.log:
                self.log.add_samples(state.step, *samples)
                if best == state.step:
                    self._save_best(text)
        count = fruitless(state.scores, training.warmup_steps)
        if training.patience is not None and count >= training.patience:
            self.say(f"no better validation since step {best}: training ends")
            state.ended = True
        if self.log:
            values = [line.get("val_bleu") for line in (*self.log.lines, logs)]
            warmed_up = state.step >= training.warmup_steps
            if warning := advice.of_bleu(values, self.is_done(), warmed_up):
                self.say(f"warning: {warning}")
        return logs

    def _make_up_validation(self) -> None:
        logs = self._validate()
        self.state.lacks_validation = False
        snapshot = take_snapshot(self.model)
        if self.log:
            self.log.add(self.state.step, logs)
            self._checkpoint(snapshot)

    def _keep_steps(self) -> None:
        """Writes a checkpoint before an error of the validation ends the run.

        The validation is made up for when the run goes on.
        """
        if self.config.training.distribution == "none":  # others might not come here
            self.state.lacks_validation = True
            self._checkpoint(take_snapshot(self.model))
            self.say(f"the steps until {self.state.step} are kept in {self.folder}")

    def _checkpoint(self, snapshot: Snapshot) -> bool:
        """Writes a checkpoint if it can: a full disk does not stop training."""
        state, training = self.state, self.config.training
        try:
            save_checkpoint(
                self.folder, snapshot, state.step, dataclasses.asdict(state)
            )
        except InputError as error:
            self.say(f"warning: {error}; this checkpoint is skipped")
            return False
        if self.is_done() or self._regular(state.step):
            last = max(training.keep_checkpoints, training.average_last or 0)
            best = max(training.keep_best, training.average_best or 0)
            latest = set(list(self._regular_checkpoints())[-last:])
            remove_checkpoints(
                self.folder, latest | set(best_steps(state.scores, best))
            )
        return True

    def _save_best(self, scores: str) -> None:
        weights = f"those of step {self.state.step}, the best in validation"
        card = self._card([f"Validation, greedy: {scores}"], weights)
        try:
            self.translator.save(self.folder / "best", card)
        except InputError as error:
            self.say(f"warning: {error}; training continues without it")

    def _card(self, lines: list[str], weights: str) -> str:
        """The card of a model; `weights` says what its weights are."""
        known_words = self.translator.known_words
        ema = self.config.training.ema
        if ema is not None:
            weights = f"the moving average, with {ema} of it kept at each step"
        step = self.state.step
        return report.model_card(self.config, step, lines, known_words, weights)

    def _regular(self, step: int) -> bool:
        return step % self.config.training.checkpoint_every == 0

    def _regular_checkpoints(self) -> dict[int, Path]:
        interval = self.config.training.checkpoint_every
        return regular_checkpoints(self.folder, self.state, interval)

    # === After the last step ===

    def _finish(self, training: TrainingSection) -> list[Score] | None:
        self.distribution.wait()  # for the chief's last checkpoint
        state = self.state

        def choose(checkpoints: Mapping[int, Path]) -> list[int]:
            return steps_to_deliver(checkpoints, state, training)[0]

        checkpoints = self._regular_checkpoints()
        if training.average_best:
            checkpoints = scored_checkpoints(self.folder, state)
        checkpoints = without_damaged(checkpoints, choose, self.say)
        steps, warning = steps_to_deliver(checkpoints, state, training)
        if warning:
            self.say(f"warning: {warning}")
        with averaged(self.model):
            if steps:
                paths = [checkpoints[step] for step in steps]
                mean = average_checkpoints(paths, weights_reader(training))
                weights.assign(self.model, mean, self.folder)
            model_folder, weights_of = self.folder / "averaged", _named(steps, state)
            if self.distribution.is_chief:  # before the test, which may fail
                self.translator.save(model_folder, self._card([], weights_of))
            tested = None if self.test_text is None else self._test(self.test_text)
        if tested is not None and self.distribution.is_chief:
            lines = [f"Test: {score}" for score in tested.scores]
            card = self._card(lines, weights_of)
            run_folder.write(model_folder / "README.md", card)
        self.say(f"model folder: {model_folder}")
        if words := self.translator.known_words:
            self.say(f"the model knows {words.summary}")
        if tested is not None and self.distribution.is_chief:
            output = self.folder / "test.hypotheses.txt"
            text = "".join(f"{line}\n" for line in tested.hypotheses)
            run_folder.write(output, text)
            report.print_test(*tested)
            minutes = state.seconds / 60
            print(f"{state.step} steps in {minutes:.1f} minutes of training")
            bleu = tested.scores[0]
            print(f"test BLEU = {bleu.score:.1f} {bleu.signature}", flush=True)
        self.distribution.wait()  # so that all end together
        return None if tested is None else tested.scores

    def _test(self, text: ParallelText) -> _Tested:
        self.say(f"translating {len(text)} test lines")
        codes = languages_of(self.config.data.test)
        with self.translator.watched(report.Counting("test", self.say)):
            lines = self.translator.translate(text.source, **codes)
        hypotheses = cast(list[str], lines)
        self.say("scoring the translations")
        options = self.config.evaluation.options
        scores = evaluate(hypotheses, text.target, confidence=_BOOTSTRAP, **options)
        scores += learned_metrics.evaluate(
            self.metrics_of_user,
            text.source,
            hypotheses,
            text.target,
            confidence=_BOOTSTRAP,
        )
        return _Tested(text, hypotheses, scores)


def _named(steps: Sequence[int], state: State) -> str:
    """What the final weights of a run are, for the card of the model."""
    if len(steps) > 1:
        return f"the mean of steps {', '.join(map(str, steps))}"
    return f"those of step {steps[0] if steps else state.step}"


def _next_multiple(step: int, interval: int) -> int:
    return (step // interval + 1) * interval
