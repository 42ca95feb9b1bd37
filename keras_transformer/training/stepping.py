"""Training steps of a run: the batches of its steps through Keras' `fit`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from keras_transformer import backends
from keras_transformer.data.ahead import AheadBatches
from keras_transformer.data.batching import TokenBatches
from keras_transformer.training.callbacks import CompileTime
from keras_transformer.training.callbacks import ReleaseMemory
from keras_transformer.training.callbacks import UnreadLogs


def train_steps(
    model: Any,
    batches: TokenBatches,
    begin: int,
    end: int,
    callbacks: Sequence[Any] = (),
    part: tuple[int, int] = (0, 1),
    compiling: CompileTime | None = None,
) -> dict[str, float]:
    """The metrics of the steps from `begin` to before `end`, which it trains.

    Batches are built, checked and sent to the device by another thread.

    Args:
        model: a compiled model.
        batches: those of the whole training.
        begin: the number of steps before.
        end: the number of steps afterwards, if no callback stops it.
        callbacks: callbacks of Keras.
        part: the arguments of `TokenBatches.part`, for one of several processes.
        compiling: another callback, which is told the shapes of the batches.
    """
    check = model.data_check()
    dataset = batches.from_step(begin, part=part)
    with AheadBatches(dataset, lambda b: backends.on_device(check(b))) as ahead:
        if compiling is not None:
            compiling.shape_of = ahead.shapes.get
            callbacks = [compiling, *callbacks]
        if backends.takes_one_buffer:
            callbacks = [ReleaseMemory(), *callbacks]
        try:
            history = model.fit(
                ahead,
                steps_per_epoch=end - begin,
                shuffle=False,
                verbose=0,
                callbacks=UnreadLogs(callbacks, model),
            )
        except Exception:
            if ahead.error is None:
                raise
            raise ahead.error from None  # TensorFlow has replaced it
        finally:
            if compiling is not None:
                compiling.close()
    return {name: values[-1] for name, values in history.history.items()}
