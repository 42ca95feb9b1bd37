"""Checkpoints of a run: all that training needs to go on where it was."""

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
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import weight_values
from keras_transformer.models.weights import write_arrays

_NAME = re.compile(r"step-(\d{7,})")


def list_checkpoints(folder):
    """`{step: path}` of the whole checkpoints below a run folder, oldest first."""
    found = {}
    for path in Path(folder, "checkpoints").glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            found[int(match[1])] = path
    return dict(sorted(found.items()))


def regular_checkpoints(folder, interval):
    """As `list_checkpoints`: of every so many steps, and the newest; not of signals."""
    found = list_checkpoints(folder)
    newest = max(found, default=None)
    return {s: path for s, path in found.items() if s % interval == 0 or s == newest}


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
            shutil.rmtree(old, ignore_errors=True)
        new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        write_arrays(snapshot.weights, new / "model.weights.h5")
        write_arrays(snapshot.others, new / "state.h5")
        (new / "state.json").write_text(json.dumps({"step": step, **state}))
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
        InputError: where a file is missing or cut off.
    """
    arrays = [read_arrays(path / name) for name in ("model.weights.h5", "state.h5")]
    return Snapshot(*arrays), read_state(path)


def read_state(path):
    """The `state` that `save_checkpoint` kept; errors as of `read_checkpoint`."""
    try:
        return json.loads((path / "state.json").read_text())
    except (OSError, ValueError):
        raise InputError(f"{path / 'state.json'} is missing or cut off") from None


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
        InputError: where it does not fit the model.
    """
    assign(model, snapshot.weights, path / "model.weights.h5")
    arrays = dict(snapshot.others)
    random_state = arrays.pop("random_state", np.zeros((0,), np.uint8))
    variables = _other_variables(model)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise InputError(
            f"{path / 'state.h5'} does not fit the optimizer of this config; begin a "
            f"new run folder"
        )
    metrics = []
    for name, variable in variables.items():
        if name.startswith("metrics/"):
            metrics.append((variable, arrays[name]))
        else:
            variable.assign(arrays[name])
    backends.restore_random_state(random_state)
    return metrics


def remove_checkpoints(folder, keep):
    """Drops every checkpoint whose step is not in `keep`."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            _remove(path)


def _remove(path):
    """Under another name first: a checkpoint that is there is whole."""
    hidden = path.with_name(f".{path.name}")
    shutil.rmtree(hidden, ignore_errors=True)
    path.rename(hidden)
    shutil.rmtree(hidden, ignore_errors=True)


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
