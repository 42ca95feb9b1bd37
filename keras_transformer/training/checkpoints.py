"""Checkpoints of a run: everything that training needs to resume.

`checkpoints/step-NNNNNNN` holds `model.weights.h5`, `state.h5` and `state.json`, which
has the SHA-256 of all three. Earlier versions wrote no SHA-256; such a checkpoint is
read unchecked.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import tempfile
from collections.abc import Collection
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from typing import NamedTuple

import numpy as np

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.files.plain_file import plain_file
from keras_transformer.files.removal import remove
from keras_transformer.models.translation_model import TranslationModel
from keras_transformer.models.weights import assign_separate
from keras_transformer.models.weights import check_fit
from keras_transformer.models.weights import named_weights
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import separate_values
from keras_transformer.models.weights import write_arrays

_NAME = re.compile(r"step-(\d{7}|[1-9]\d{7,})")
_WEIGHTS, _OTHERS, _STATE = "model.weights.h5", "state.h5", "state.json"
_DIGESTS = "sha256"  # the key of `state.json`


def list_checkpoints(folder: Path) -> dict[int, Path]:
    """`{step: path}` of the complete checkpoints of a run folder, oldest first."""
    checkpoints = {}
    for path in Path(folder, "checkpoints").glob("step-*"):
        if match := _NAME.fullmatch(path.name):
            checkpoints[int(match[1])] = path
    return dict(sorted(checkpoints.items()))


class Snapshot(NamedTuple):
    """All values of a model in training, `{name: array}`."""

    weights: dict[str, np.ndarray]  # adapters (LoRA) apart from their matrices
    # Of optimizer, seed generators, metrics and random state.
    others: dict[str, np.ndarray]


def take_snapshot(model: TranslationModel) -> Snapshot:
    """The values of a compiled model.

    With several training processes, all must call it: some values are sums over all.
    """
    variables = _other_variables(model)
    others = {name: backends.to_numpy(v) for name, v in variables.items()}
    others["random_state"] = backends.random_state()
    return Snapshot(separate_values(model), others)


def save_checkpoint(
    folder: Path, snapshot: Snapshot, step: int, state: Mapping[str, Any]
) -> None:
    """Writes `checkpoints/step-NNNNNNN`, whole or not at all.

    Args:
        folder: the run folder.
        snapshot: the values of the model.
        step: the number of updates so far.
        state: further state of the run, as JSON values.

    Raises:
        InputError: where it cannot be written; older checkpoints are kept.
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
        content: dict[str, Any] = {"step": step, **state}
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


def _flush(path: Path) -> None:
    """Flushes a file or folder to disk, so that a power cut leaves no half of it."""
    if os.name == "nt":  # cannot open folders
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read_checkpoint(path: Path) -> tuple[Snapshot, dict[str, Any]]:
    """The `Snapshot` and `state` of a checkpoint.

    Raises:
        InputError: where a file is missing or damaged.
    """
    state = check_checkpoint(path)
    snapshot = Snapshot(read_arrays(path / _WEIGHTS), read_arrays(path / _OTHERS))
    return snapshot, state


def check_checkpoint(path: Path) -> dict[str, Any]:
    """The `state` of a checkpoint, after checking the SHA-256 of its files.

    Raises:
        InputError: naming a file that is missing or damaged.
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
                f"{file} is damaged: its SHA-256 is not the one in {_STATE}"
            )
    return state


def read_state(path: Path) -> dict[str, Any]:
    """The `state` of a checkpoint.

    Raises:
        InputError: where it is missing, damaged, or that of another step.
    """
    return _read_state(path)[0]


def has_digests(path: Path) -> bool:
    """Whether a checkpoint has SHA-256 digests; raises as `read_state` does."""
    return _read_state(path)[1] is not None


def _read_state(path: Path) -> tuple[dict[str, Any], dict[str, str] | None]:
    """`state` and `{file: SHA-256}`, which is None in folders of earlier versions."""
    file = plain_file(path.parent, f"{path.name}/{_STATE}")
    try:
        state = json.loads(file.read_text())
    except (OSError, RecursionError, ValueError):
        raise InputError(f"{file} is missing or truncated") from None
    step = int(path.name.removeprefix("step-"))
    if not isinstance(state, dict) or type(state.get("step")) is not int:
        raise InputError(f"{file} is damaged: it is not a JSON object with a step")
    if state["step"] != step:
        raise InputError(
            f"{file} is of step {state['step']}, which is not the step of its folder"
        )
    digests = state.pop(_DIGESTS, None)
    if digests is None:
        return state, None
    names = {_WEIGHTS, _OTHERS, _STATE}
    if not isinstance(digests, dict) or digests.keys() != names:
        raise InputError(
            f"{file} is damaged: its {_DIGESTS} are not those of three files"
        )
    if digests[_STATE] != sha256_of_json(state):
        raise InputError(
            f"{file} is damaged: its SHA-256 is not the one that it records"
        )
    return state, digests


def restore_snapshot(
    snapshot: Snapshot, model: TranslationModel, path: Path
) -> list[tuple[Any, np.ndarray]]:
    """Assigns the values of a snapshot to a model.

    Args:
        snapshot: the values of an equal model.
        model: the compiled model.
        path: the path of the checkpoint, for messages.

    Returns:
        `(variable, value)` of the metrics, to be assigned after `fit` has begun, which
        resets them.

    Raises:
        InputError: where it does not fit the model, which is then unchanged.
    """
    check_fit(named_weights(model), snapshot.weights, path / _WEIGHTS)
    arrays = dict(snapshot.others)
    random_state = arrays.pop("random_state", None)
    variables = _other_variables(model)
    shapes = {name: tuple(variable.shape) for name, variable in variables.items()}
    if shapes != {name: array.shape for name, array in arrays.items()}:
        raise InputError(
            f"{path / _OTHERS} does not fit the optimizer of this config; choose "
            "another output for a new run"
        )
    _restore_random_state(random_state, path)
    assign_separate(model, snapshot.weights, path / _WEIGHTS)
    metrics = []
    for name, variable in variables.items():
        if name.startswith("metrics/"):
            metrics.append((variable, arrays[name]))
        else:
            variable.assign(arrays[name])
    return metrics


def _restore_random_state(array: np.ndarray | None, path: Path) -> None:
    """Restores the state of this backend, unless another backend wrote it."""
    try:
        if array is None or array.dtype != np.uint8 or array.ndim != 1:
            raise ValueError
        backends.restore_random_state(array)
    except (RuntimeError, ValueError):
        raise InputError(
            f"{path / _OTHERS} is damaged: it has no valid random state"
        ) from None


def remove_checkpoints(folder: Path, keep: Collection[int]) -> None:
    """Removes every checkpoint whose step is not in `keep`."""
    for step, path in list_checkpoints(folder).items():
        if step not in keep:
            _remove(path)


def _remove(path: Path) -> None:
    """Renames before removal, so that every existing checkpoint is complete."""
    hidden = path.with_name(f".{path.name}")
    remove(hidden)
    path.rename(hidden)
    remove(hidden)


def metric_variables(model: TranslationModel) -> list[Any]:
    """The variables of the loss and of the metrics, in a stable order."""
    # Not `model.metrics_variables`: before the first step Keras has no metrics.
    metrics = [model.metrics[0], *model.fed_metrics]
    return [variable for metric in metrics for variable in metric.variables]


def _other_variables(model: TranslationModel) -> dict[str, Any]:
    """Optimizer, seed generators, metrics: `{name: variable}` in a stable order."""
    teacher = model.non_trainable_weights  # which stays where it is
    weights = {id(weight) for weight in [*model.weights, *teacher]}
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
