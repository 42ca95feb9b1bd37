"""Checkpoints of a run: all that training needs to go on where it was."""

import json
import re
import shutil
import tempfile
from pathlib import Path

import numpy as np
from keras import ops

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import weight_values
from keras_transformer.models.weights import write_arrays

_NAME = re.compile(r"step-(\d{7,})")


def list_checkpoints(folder):
    """`[(step, path)]` of the whole checkpoints below a run folder, oldest first."""
    found = []
    for path in Path(folder, "checkpoints").glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            found.append((int(match[1]), path))
    return sorted(found)


def save_checkpoint(folder, model, step, state, keep):
    """Writes `checkpoints/step-NNNNNNN` whole or not at all, and drops the oldest.

    Args:
        folder: the run folder.
        model: compiled; its weights, optimizer and seed generators are kept.
        step: updates done.
        state: what else the run wants to know, as JSON can hold it.
        keep: how many checkpoints stay.
    """
    path = Path(folder, "checkpoints", f"step-{step:07d}")
    path.parent.mkdir(exist_ok=True)
    for old in path.parent.glob(".step-*"):  # left by a run that was killed
        shutil.rmtree(old, ignore_errors=True)
    new = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
    try:
        write_arrays(weight_values(model), new / "model.weights.h5")
        write_arrays(_other_values(model), new / "state.h5")
        (new / "state.json").write_text(json.dumps({"step": step, **state}))
        if path.exists():
            shutil.rmtree(path)
        new.rename(path)
    except OSError as error:
        raise InputError(f"cannot write {path}: {error.strerror}") from None
    finally:
        shutil.rmtree(new, ignore_errors=True)
    for _, old in list_checkpoints(folder)[:-keep]:
        shutil.rmtree(old, ignore_errors=True)


def restore_checkpoint(path, model):
    """Gives the model what `save_checkpoint` kept; returns its `state`."""
    assign(model, read_arrays(path / "model.weights.h5"), path / "model.weights.h5")
    arrays = read_arrays(path / "state.h5")
    variables = _other_variables(model)
    wrong = [
        name
        for name, variable in variables.items()
        if name not in arrays or arrays[name].shape != tuple(variable.shape)
    ]
    if wrong or len(arrays) != len(variables) + 1:
        raise InputError(
            f"{path / 'state.h5'} does not fit the optimizer of this config; begin a "
            f"new run folder"
        )
    for name, variable in variables.items():
        variable.assign(arrays[name])
    backends.restore_random_state(arrays["random_state"])
    return json.loads((path / "state.json").read_text())


def average_checkpoints(paths):
    """`{path: array}`: the mean of the weights of several checkpoints.

    Reference: Vaswani et al., 2017, https://arxiv.org/abs/1706.03762, section 6.1.
    """
    total = None
    for path in paths:
        arrays = read_arrays(Path(path, "model.weights.h5"))
        if total is None:
            total = {name: a.astype(np.float64) for name, a in arrays.items()}
            continue
        if total.keys() != arrays.keys():
            raise InputError(f"{path} has other weights than {paths[0]}")
        for name, array in arrays.items():
            total[name] += array
    return {name: (a / len(paths)).astype(np.float32) for name, a in total.items()}


def _other_variables(model):
    """Optimizer and seed generators: `{name: variable}` in a stable order."""
    weights = {id(weight) for weight in model.weights}
    seeds = [v for v in model.non_trainable_variables if id(v) not in weights]
    named = {f"optimizer/{i:04d}": v for i, v in enumerate(model.optimizer.variables)}
    return named | {f"seeds/{i:04d}": v for i, v in enumerate(seeds)}


def _other_values(model):
    variables = _other_variables(model)
    arrays = {name: ops.convert_to_numpy(v.value) for name, v in variables.items()}
    return arrays | {"random_state": backends.random_state()}
