"""Checkpoints of a run: all that training needs to go on where it was.

`checkpoints/step-NNNNNNN` holds `model.weights.h5`, `state.h5` and `state.json`, which
has the SHA-256 of all three. Versions before this one wrote none; such a checkpoint is
read as it is.
"""

import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import NamedTuple

import numpy as np

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.removal import remove
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import check_fit
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import weight_values
from keras_transformer.models.weights import write_arrays

_NAME = re.compile(r"step-(\d{7}|[1-9]\d{7,})")
_WEIGHTS, _OTHERS, _STATE = "model.weights.h5", "state.h5", "state.json"
_DIGESTS = "sha256"  # the key of `state.json`


def list_checkpoints(folder):
    """`{step: path}` of the whole checkpoints below a run folder, oldest first."""
    found = {}
    for path in Path(folder, "checkpoints").glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


class Snapshot(NamedTuple):
    """All values of a model that learns, `{name: array}`."""

    weights: dict
    others: dict  # optimizer, seed generators, metrics and random state


def take_snapshot(model):
    """The values of a compiled model.

    Where several processes train, all of them must ask: some values are sums over all.
    """
    variables = _other_variables(model)
    others = {name: backends.to_numpy(v) for name, v in variables.items()}
    others["random_state"] = backends.random_state()
    return Snapshot(weight_values(model), others)


def save_checkpoint(folder, snapshot, step, state):
    """Writes `checkpoints/step-NNNNNNN`, whole or not at all.

    Args:
        folder: the run folder.
        snapshot: of the model.
        step: updates done.
        state: what else the run wants to know, as JSON can hold it.

    Raises:
        InputError: where it cannot be written; older checkpoints are untouched.
    """
    path = Path(folder, "checkpoints", f"step-{step:07d}")
    new = None
    try:
        path.parent.mkdir(exist_ok=True)
        for old in path.parent.glob(".step-*"):  # left by a run that was killed
            remove(old)
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        write_arrays(snapshot.weights, new / _WEIGHTS)
        write_arrays(snapshot.others, new / _OTHERS)
        content = {"step": step, **state}
        digests = {name: sha256_of(new / name) for name in (_WEIGHTS, _OTHERS)}
        content[_DIGESTS] = {**digests, _STATE: sha256_of_json(content)}
        (new / _STATE).write_text(json.dumps(content))
        for written in (*new.iterdir(), new):
            _flush(written)
        if path.exists():
            _remove(path)
        new.rename(path)
        _flush(path.parent)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        if new is not None:
            shutil.rmtree(new, ignore_errors=True)


def _flush(path):
    """Waits until a file or folder is on the disk: no power cut leaves half of it."""
    if os.name == "nt":  # opens no folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_checkpoint(path):
    """What `save_checkpoint` kept: a `Snapshot`, and `state`.

    Raises:
        InputError: where a file is missing or damaged.
    """
    state = check_checkpoint(path)
    return Snapshot(*(read_arrays(path / name) for name in (_WEIGHTS, _OTHERS))), state


def check_checkpoint(path):
    """The `state` of a checkpoint all of whose files are those that were written.

    Raises:
        InputError: naming the file that is missing or damaged.
    """
    state, digests = _read_state(path)
    for name in (_WEIGHTS, _OTHERS):
        file = plain_file(path.parent, f"{path.name}/{name}")
        try:
            is_whole = digests is None or sha256_of(file) == digests[name]
        except OSError as error:
            raise InputError(f"cannot read {file}: {error.strerror}") from None
        if not is_whole:
            raise InputError(
                f"{file} is damaged: it has not the SHA-256 that {_STATE} says"
            )
    return state


def read_state(path):
    """The `state` that `save_checkpoint` kept.

    Raises:
        InputError: where it is missing, damaged, or that of another step.
    """
    return _read_state(path)[0]


def has_digests(path):
    """Whether damage to a checkpoint shows; errors as of `read_state`."""
    return _read_state(path)[1] is not None


def _read_state(path):
    """`state` and `{file: SHA-256}`, which is None in folders of earlier versions."""
    file = plain_file(path.parent, f"{path.name}/{_STATE}")
    try:
        state = json.loads(file.read_text())
    except (OSError, RecursionError, ValueError):
        raise InputError(f"{file} is missing or cut off") from None
    step = int(path.name.removeprefix("step-"))
    if not isinstance(state, dict) or type(state.get("step")) is not int:
        raise InputError(f"{file} is damaged: it is no JSON object with a step")
    if state["step"] != step:
        raise InputError(
            f"{file} is of step {state['step']}, which is not that of its folder"
        )
    digests = state.pop(_DIGESTS, None)
    if digests is None:
        return state, None
    names = {_WEIGHTS, _OTHERS, _STATE}
    if not isinstance(digests, dict) or digests.keys() != names:
        raise InputError(f"{file} is damaged: its {_DIGESTS} are not of three files")
    if digests[_STATE] != sha256_of_json(state):
        raise InputError(f"{file} is damaged: it has not the SHA-256 that it says")
    return state, digests


def restore_snapshot(snapshot, model, path):
    """Gives the model the values of a snapshot.

    Args:
        snapshot: of an equal model.
        model: compiled.
        path: of the checkpoint, for the error.

    Returns:
        `(variable, value)` of the metrics: they are to be assigned when `fit` has
        begun, which sets them to zero.

    Raises:
        InputError: where it does not fit the model, which is then unchanged.
    """
    check_fit(model, snapshot.weights, path / _WEIGHTS)
    arrays = dict(snapshot.others)
    random_state = arrays.pop("random_state", None)
    variables = _other_variables(model)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise InputError(
            f"{path / _OTHERS} does not fit the optimizer of this config; begin a "
            f"new run folder"
        )
    _restore_random_state(random_state, path)
    assign(model, snapshot.weights, path / _WEIGHTS)
    metrics = []
    for name, variable in variables.items():
        if name.startswith("metrics/"):
            metrics.append((variable, arrays[name]))
        else:
            variable.assign(arrays[name])
    return metrics


def _restore_random_state(array, path):
    """Restores the state of this backend, unless another backend wrote it."""
    try:
        if array is None or array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError
        backends.restore_random_state(array)
    except (RuntimeError, ValueError):
        raise InputError(
            f"{path / _OTHERS} is damaged: it holds no state of the random numbers"
        ) from None


def remove_checkpoints(folder, keep):
    """Drops every checkpoint whose step is not in `keep`."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            _remove(path)


def _remove(path):
    """Under another name first: a checkpoint that is there is whole."""
    hidden = path.with_name(f".{path.name}")
    remove(hidden)
    path.rename(hidden)
    remove(hidden)


def metric_variables(model):
    """The variables of the loss and of the metrics, in a stable order."""
    # Not `model.metrics_variables`: before the first step Keras knows no metric.
    metrics = [model.metrics[0], *model.fed_metrics]
    return [variable for metric in metrics for variable in metric.variables]


def _other_variables(model):
    """Optimizer, seed generators, metrics: `{name: variable}` in a stable order."""
    weights = {id(weight) for weight in model.weights}
    groups = {
        "optimizer": model.optimizer.variables,
        "seeds": [v for v in model.non_trainable_variables if id(v) not in weights],
        "metrics": metric_variables(model),
    }
    return {
        f"{group}/{i:04d}": variable
        for group, variables in groups.items()
        for i, variable in enumerate(variables)
    }
