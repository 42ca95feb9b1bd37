"""Weights on disk under names of our own, the same on every backend and for ever.

An HDF5 file with one dataset a weight. Its name is the weight's path, made of the
names that this package gives its layers (`encoder_0/self_attention/query_kernel`), not
of class names or creation order: renaming a class breaks no file.
"""

import io
import math
from pathlib import Path

import h5py
import numpy as np

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import write_whole


def named_weights(model):
    """`{path: variable}` of all weights, without the state of dropout."""
    return {weight.path: weight for weight in model.weights}


def weight_values(model):
    """`{path: float32 array}`, copies."""
    return {
        path: backends.to_numpy(weight).astype("float32")
        for path, weight in named_weights(model).items()
    }


def first_broken(arrays):
    """Which of `{path: array}` holds a number that is not finite; None if none does."""
    for path, values in arrays.items():
        if not np.isfinite(values).all():
            return path
    return None


def write_arrays(arrays, path):
    """Writes `{name: array}`, whole or not at all."""
    contents = io.BytesIO()  # HDF5's own messages of a full disk are no help to anyone
    with h5py.File(contents, "w") as file:
        for name, value in arrays.items():
            file.create_dataset(name, data=value)
    try:
        write_whole(Path(path), contents.getbuffer())
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; check the folder and its disk"
        ) from None


def read_arrays(path):
    """What `write_arrays` wrote.

    The file may come from anybody: only numbers that lie in it as they are get read,
    so that it can neither point to other files nor unfold to more than its size.

    Raises:
        InputError: where the file is missing, cut off or something else.
    """
    path = Path(path)
    arrays = {}
    left = 0

    def visit(name, item):
        nonlocal left
        if not isinstance(item, h5py.Dataset):
            return
        if not _is_plain(item):
            raise ValueError
        left -= math.prod(item.shape) * item.dtype.itemsize
        if left < 0:
            raise ValueError
        arrays[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            left = path.stat().st_size
            file.visititems(visit)  # follows no links
    except FileNotFoundError:
        raise InputError(f"{path} is missing; the folder is not complete") from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        raise InputError(
            f"{path} is not a weights file of this package, or is cut off; copy it "
            f"again"
        ) from None
    return arrays


def _is_plain(dataset):
    """Whether it holds numbers as they are: not elsewhere, not packed or in pieces."""
    return (
        dataset.shape is not None
        and dataset.dtype.kind in "fiub"
        and not dataset.external
        and not dataset.is_virtual
        and dataset.chunks is None
    )


def assign(model, arrays, where):
    """Gives the model the weights `{path: array}`.

    Raises:
        InputError: where a weight is missing, left over, or of another shape; the
            model is then unchanged.
    """
    check_fit(model, arrays, where)
    for path, weight in named_weights(model).items():
        weight.assign(arrays[path])


def check_fit(model, arrays, where):
    """Refuses what `assign` refuses; assigns nothing."""
    weights = named_weights(model)
    missing, foreign = weights.keys() - arrays.keys(), arrays.keys() - weights.keys()
    if missing or foreign:
        what, name = ("lacks", min(missing)) if missing else ("holds", min(foreign))
        raise InputError(
            f"{where} {what} the weight {name!r}, unlike the model of its config "
            f"({len(missing)} missing, {len(foreign)} left over); use the file that "
            f"belongs to this config"
        )
    for path, weight in weights.items():
        if arrays[path].dtype.kind != "f":
            raise InputError(
                f"{where}: the weight {path!r} is of whole numbers; copy it"
            )
        if tuple(arrays[path].shape) != tuple(weight.shape):
            raise InputError(
                f"{where}: the weight {path!r} has shape {tuple(arrays[path].shape)}, "
                f"but the model of its config needs {tuple(weight.shape)}; use the "
                f"file that belongs to this config"
            )


def save_weights(model, path):
    """Writes the model's weights, whole or not at all."""
    write_arrays(weight_values(model), path)
