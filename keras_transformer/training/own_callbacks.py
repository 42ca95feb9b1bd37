"""Callbacks of the user in a run: `training.callbacks`, and `callbacks` of `train`."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import keras

from keras_transformer.errors import InputError
from keras_transformer.training.config import RunConfig
from keras_transformer.user_modules import named_function

_KEY = "training.callbacks"
_HOOKS = (
    *("on_train_batch_begin", "on_batch_begin"),
    *("on_train_batch_end", "on_batch_end"),
)


def factories(config: RunConfig) -> dict[str, Callable[[RunConfig], Any]]:
    """The functions that `training.callbacks` names; imports their modules.

    Raises:
        InputError: where there is no such module or function.
    """
    paths = config.training.callbacks
    return {path: named_function(path, _KEY, "a callback") for path in paths}


def made(
    factories: Mapping[str, Callable[[RunConfig], Any]], config: RunConfig
) -> list[Any]:
    """The callbacks that the functions return, in their order.

    Raises:
        InputError: where one returns something else.
    """
    callbacks: list[Any] = []
    for path, factory in factories.items():
        returned = factory(config)
        new = returned if isinstance(returned, list | tuple) else [returned]
        check(new, f"{_KEY}: {path} returned")
        callbacks += new
    return callbacks


def check(callbacks: Iterable[Any], what: str) -> None:
    """Refuses what is no callback of Keras.

    Args:
        callbacks: the callbacks.
        what: the beginning of the message.

    Raises:
        InputError: with the type of what is none.
    """
    for callback in callbacks:
        if not isinstance(callback, keras.callbacks.Callback):
            raise InputError(
                f"{what} {type(callback).__name__}, which is no keras.callbacks."
                f"Callback; give callbacks, or a list of them"
            )


class OwnCallbacks(keras.callbacks.Callback):
    """A training of several calls of `fit`, as callbacks see one `fit`.

    An epoch is what lies between two lines of the log: it ends with a validation, a
    checkpoint or a step of `training.log_every`, and its number is that of the steps
    before it, at its end that of the steps so far. Its logs are those of that line. As
    a callback of each `fit` it passes on the batches.

    A callback that sets `stop_training` ends the training with the epoch.

    Args:
        callbacks: the callbacks.
        model: the model that they are of.
        steps: the number of steps of the whole training.

    Attributes:
        stopped: whether one of them has set `stop_training`.
    """

    def __init__(self, callbacks: Sequence[Any], model: Any, steps: int) -> None:
        super().__init__()
        self.stopped = False
        self._callbacks = callbacks
        # `model` of a callback makes JAX write the weights to its layers.
        self._flags = model
        for callback in callbacks:
            callback.set_params({"verbose": 0, "epochs": steps, "steps": None})
            callback.set_model(model)
        self._of_batches = [c for c in callbacks if not _is_default(c)]

    def begin(self) -> None:
        """The training begins, or goes on."""
        for callback in self._callbacks:
            callback.on_train_begin()

    def begin_epoch(self, step: int) -> None:
        """A part of the training begins after so many steps."""
        for callback in self._callbacks:
            callback.on_epoch_begin(step)

    def end_epoch(self, step: int, logs: Mapping[str, float]) -> None:
        """A part of the training has ended after so many steps."""
        self._tell(self._callbacks, "on_epoch_end", step, dict(logs))

    def end(self) -> None:
        """The training has ended, or was interrupted."""
        for callback in self._callbacks:
            callback.on_train_end()

    def on_train_batch_begin(self, batch: int, logs: Any = None) -> None:
        self._tell(self._of_batches, "on_train_batch_begin", batch, {})

    def on_train_batch_end(self, batch: int, logs: Any = None) -> None:
        if self._of_batches:
            numbers = {
                name: keras.ops.convert_to_numpy(value).item()
                for name, value in (logs or {}).items()
            }
            self._tell(self._of_batches, "on_train_batch_end", batch, numbers)

    def _tell(
        self, callbacks: Sequence[Any], hook: str, number: int, logs: dict[str, float]
    ) -> None:
        if not callbacks:
            return
        before = self._flags.stop_training
        self._flags.stop_training = False
        for callback in callbacks:
            getattr(callback, hook)(number, logs)
        self.stopped |= self._flags.stop_training
        self._flags.stop_training = before


def _is_default(callback: Any) -> bool:
    """Whether a callback does nothing at a batch, so that nobody waits for its logs."""
    base = keras.callbacks.Callback
    return all(
        getattr(getattr(callback, hook), "__func__", None) is getattr(base, hook)
        for hook in _HOOKS
    )
