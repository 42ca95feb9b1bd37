"""Training steps of a run: the batches of its steps through Keras' `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer.data.batching import TokenBatches
from keras_transformer.training.callbacks import UnreadLogs


def train_steps(
    model: Any,
    batches: TokenBatches,
    begin: int,
    end: int,
    callbacks: Sequence[Any] = (),
    part: tuple[int, int] = (0, 1),
) -> dict[str, float]:
    """The metrics of the steps from `begin` to before `end`, which it trains.

    Args:
        model: a compiled model.
        batches: those of the whole training.
        begin: the number of steps before.
        end: the number of steps afterwards, if no callback stops it.
        callbacks: callbacks of Keras.
        part: the arguments of `TokenBatches.part`, for one of several processes.
    """
    history = model.fit(
        batches.from_step(begin, part=part),
        steps_per_epoch=end - begin,
        shuffle=False,
        verbose=0,
        callbacks=UnreadLogs(callbacks, model),
    )
    return {name: values[-1] for name, values in history.history.items()}
