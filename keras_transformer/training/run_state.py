"""How far a run is, and where it goes on."""

import dataclasses

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.training.checkpoints import list_checkpoints
from keras_transformer.training.checkpoints import read_checkpoint
from keras_transformer.training.checkpoints import restore_snapshot
from keras_transformer.training.model import begin_from_trained


@dataclasses.dataclass
class State:
    """What a checkpoint keeps besides the model.

    Args:
        step: updates done.
        seconds: spent in training steps, over all resumes.
        scores: `[step, value]` of each validation, of the metric that says what is
            best; higher is better.
        ended: whether validation has not become better for too long.
        backend: that took the last step.
    """

    step: int = 0
    seconds: float = 0.0
    scores: list = dataclasses.field(default_factory=list)
    ended: bool = False
    backend: str = backends.name


def restored(config, model, say):
    """Gives the model of a run the weights to go on from.

    They are those of the newest checkpoint that can be read; of a new run, those of
    `model.folder` or fresh ones.

    Args:
        config: a `RunConfig`.
        model: of the run, compiled.
        say: is given what a person would like to know.

    Returns:
        The `State`, and `(variable, value)` of the metrics of a window that was cut in
        two: they are to be assigned when `fit` has begun.

    Raises:
        InputError: where no checkpoint can be read, or it does not fit the model.
    """
    paths = list(list_checkpoints(config.output).values())
    for path in reversed(paths):
        try:
            snapshot, state = read_checkpoint(path)
        except InputError as error:
            say(f"warning: {error}; an older checkpoint is taken")
            continue
        metrics, state = restore_snapshot(snapshot, model, path), State(**state)
        say(f"resumed from step {state.step}")
        if state.backend != backends.name:
            say(
                f"warning: the backend was {state.backend} and is {backends.name} now, "
                f"which draws other random numbers"
            )
            state.backend = backends.name
        is_cut = all(state.step % interval for interval in config.training.intervals)
        return state, metrics if is_cut else []
    if paths:
        raise InputError(
            f"no checkpoint in {config.output} can be read; copy them again, or "
            f"choose another output"
        )
    begin_from_trained(model, config)
    return State(), []
