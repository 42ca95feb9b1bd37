"""State of a run: its progress, and the point from which it resumes."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
from typing import Annotated
from typing import Any
from typing import NamedTuple

import numpy as np
import pydantic

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.training.checkpoints import has_digests
from keras_transformer.training.checkpoints import list_checkpoints
from keras_transformer.training.checkpoints import read_checkpoint
from keras_transformer.training.checkpoints import read_state
from keras_transformer.training.checkpoints import restore_snapshot
from keras_transformer.training.config import RunConfig
from keras_transformer.training.model import begin_from_trained
from keras_transformer.training.validation import fruitless


@dataclasses.dataclass
class State:
    """The state in a checkpoint besides the model.

    Args:
        step: the number of updates.
        seconds: the time spent in training steps, over all resumes.
        scores: `[step, value]` of each validation, in the metric that selects the best;
            higher is better.
        ended: whether validation has not improved for too long.
        backend: the backend of the last step.
        is_cut: whether a signal came between two log lines, so that metrics continue;
            None in a checkpoint of an earlier version.
        evaluation: the options of the config's `evaluation` behind `scores`; None in a
            checkpoint of an earlier version.
        regular: the steps at which a regular checkpoint was due, oldest first, whether
            or not it could be written; None in a checkpoint of an earlier version.
        lacks_validation: whether the validation of this step failed.
        files: `{name: SHA-256}` of further files of the run folder that a resumed
            training reads; None in a checkpoint of an earlier version.
    """

    __pydantic_config__ = pydantic.ConfigDict(extra="forbid", strict=True)

    step: pydantic.NonNegativeInt = 0
    seconds: Annotated[float, pydantic.Field(ge=0.0)] = 0.0
    scores: list[tuple[int, float]] = dataclasses.field(default_factory=list)
    ended: bool = False
    backend: str = backends.name
    is_cut: bool | None = None
    evaluation: dict[str, Any] | None = None
    regular: list[int] | None = None
    lacks_validation: bool = False
    files: dict[str, str] | None = None

    @classmethod
    def read(cls, path: Path) -> State:
        """The state in a checkpoint.

        Raises:
            InputError: where it is missing, damaged, or of a later version.
        """
        return cls.of(read_state(path), path)

    @classmethod
    def of(cls, content: Any, path: Path) -> State:
        """The state in a `state.json`; `path` is its checkpoint.

        Raises:
            InputError: where a key or a value is not valid.
        """
        try:
            return _ADAPTER.validate_json(json.dumps(content))
        except pydantic.ValidationError as error:
            fault = error.errors()[0]
            key = ".".join(map(str, fault["loc"]))
            raise InputError(
                f"{path / 'state.json'} is damaged, or of a later version: {key}: "
                f"{fault['msg']}"
            ) from None

    def regular_steps(self, interval: int) -> list[int]:
        """`regular`; for an earlier version, every `checkpoint_every` steps."""
        if self.regular is None:
            return list(range(interval, self.step + 1, interval))
        return self.regular


_ADAPTER = pydantic.TypeAdapter(State)


def newest_state(
    folder: Path, say: Callable[[str], None] = lambda text: None
) -> State | None:
    """The `State` of the newest readable checkpoint of a run folder, or None.

    Only `state.json` is read; `say` receives a message for each skipped one.
    """
    for path in reversed(list_checkpoints(folder).values()):
        try:
            return State.read(path)
        except InputError as error:
            say(f"warning: {error}; the checkpoint before it is used")
    return None


def regular_checkpoints(folder: Path, state: State, interval: int) -> dict[int, Path]:
    """`{step: path}` of the regular checkpoints up to a `State`, and of the newest.

    Checkpoints written at a signal are excluded, and so are later, unreadable ones.
    """
    checkpoints = {
        s: path for s, path in list_checkpoints(folder).items() if s <= state.step
    }
    regular = {*state.regular_steps(interval), max(checkpoints, default=None)}
    return {step: path for step, path in checkpoints.items() if step in regular}


def scored_checkpoints(folder: Path, state: State) -> dict[int, Path]:
    """`{step: path}` of the checkpoints with a validation, up to a `State`.

    Also those at which a run ended that was given more steps afterwards.
    """
    scored = {step for step, _ in state.scores}
    return {s: path for s, path in list_checkpoints(folder).items() if s in scored}


class Before(NamedTuple):
    """Settings of the former config, which a checkpoint of an earlier version lacks.

    Args:
        checkpoint_every: the value in that config.
        scored_alike: whether its `evaluation` equals that of the current config.
    """

    checkpoint_every: int
    scored_alike: bool = True


def restored(
    config: RunConfig,
    model: Any,
    say: Callable[[str], None],
    before: Before | None = None,
) -> tuple[State, list[tuple[Any, np.ndarray]]]:
    """Restores the weights from which a run continues.

    They come from the newest readable checkpoint; for a new run from `model.folder`, or
    they are fresh.

    Args:
        config: a `RunConfig`.
        model: the compiled model of the run.
        say: a function that receives messages for people.
        before: the `Before` of a changed config.

    Returns:
        The `State`, and `(variable, value)` of the metrics of an interrupted window, to
        be assigned after `fit` has begun.

    Raises:
        InputError: where there are checkpoints, but none is complete and fits the
            model.
    """
    former = before or Before(config.training.checkpoint_every)
    faults = []
    for path in reversed(list_checkpoints(config.output).values()):
        try:
            snapshot, content = read_checkpoint(path)
            state = State.of(content, path)
            metrics = restore_snapshot(snapshot, model, path)
        except InputError as error:
            faults.append(error)
            say(f"warning: {error}; an older checkpoint is used")
            continue
        say(f"resumed from step {state.step}")
        if not has_digests(path):
            say(f"{path} has no digests, as of an earlier version: read unchecked")
        if state.backend != backends.name:
            say(
                f"warning: the backend was {state.backend} and is now "
                f"{backends.name}, which draws other random numbers"
            )
            state.backend = backends.name
        if state.is_cut is None:
            intervals = config.training.intervals
            state.is_cut = all(state.step % interval for interval in intervals)
        _go_on(state, config, former, say)
        return state, metrics if state.is_cut else []
    if faults:
        raise InputError(
            f"no checkpoint in {config.output} can be read ({faults[0]}); copy them "
            f"again, or choose another output"
        )
    begin_from_trained(model, config, say)
    return State(evaluation=config.evaluation.options, regular=[]), []


def _go_on(
    state: State, config: RunConfig, before: Before, say: Callable[[str], None]
) -> None:
    """Adapts a state to a config whose bookkeeping may have changed."""
    training, options = config.training, config.evaluation.options
    if state.ended:
        # Earlier versions also counted the validations of the warm-up.
        warmup = 0 if state.regular is None else training.warmup_steps
        count = fruitless(state.scores, warmup)
        if training.patience is None or count < training.patience:
            state.ended = False
    state.regular = state.regular_steps(before.checkpoint_every)
    scored_alike = before.scored_alike
    if state.evaluation is not None:
        # An option newer than the checkpoint has its default, the former behaviour.
        current = {key: options[key] for key in state.evaluation if key in options}
        scored_alike = current == state.evaluation
    has_ended = state.ended or state.step >= training.steps
    is_outdated = not scored_alike and training.best_metric != "loss" and not has_ended
    if state.scores and is_outdated:
        state.scores = []
        say(
            "the validations so far were scored with other options (evaluation): "
            "the best one is chosen anew"
        )
    if not state.scores or scored_alike:
        state.evaluation = options
