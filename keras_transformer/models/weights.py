"""Weights on disk under names of our own, the same on every backend and for ever.

An HDF5 file with one dataset a weight. Its name is the weight's path, made of the
names that this package gives its layers (`encoder_0/self_attention/query_kernel`), not
of class names or creation order: renaming a class breaks no file.
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import write_whole
from keras_transformer.tensors import Shape


def named_weights(model: Any) -> dict[str, Any]:
    """`{path: variable}` of all weights, without the state of dropout."""
    return {weight.path: weight for weight in model.weights}


def weight_values(model: Any) -> dict[str, np.ndarray]:
    """`{path: float32 array}`, copies."""
    return {
        path: backends.to_numpy(weight).astype("float32")
        for path, weight in model.merged_weights().items()
    }


def first_broken(arrays: Mapping[str, np.ndarray]) -> str | None:
    """Which of `{path: array}` holds a number that is not finite; None if none does."""
    for path, values in arrays.items():
        if not np.isfinite(values).all():
            return path
    return None


def write_arrays(arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
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


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """What `write_arrays` wrote, whatever names it has; of a run's own files.

    Only numbers that lie in the file as they are get read, so that it can neither point
    to other files nor unfold to more than its size.

    Raises:
        InputError: where the file is missing, cut off or something else.
    """
    path = Path(path)
    arrays = {}
    left = 0

    def visit(name: str, item: Any) -> None:
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
        raise _missing(path) from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        raise _damaged(path) from None
    return arrays


def _is_plain(dataset: Any) -> bool:
    """Whether it holds numbers as they are: not elsewhere, not packed or in pieces."""
    return (
        dataset.shape is not None
        and dataset.dtype.kind in "fiub"
        and not dataset.external
        and not dataset.is_virtual
        and dataset.chunks is None
    )


def read_weights(
    path: str | Path, shapes: Mapping[str, Shape]
) -> dict[str, np.ndarray]:
    """The weights of a file that may come from anybody.

    Nothing of the file is looked at but the groups and weights that are named here, so
    that what else it holds costs nothing.

    Args:
        path: of the file.
        shapes: `{path: shape}` of the weights.

    Returns:
        `{path: array}` of these.

    Raises:
        InputError: where the file is missing, cut off or something else, or a weight is
            missing, left over, of another shape, or no plain float numbers.
    """
    try:
        with h5py.File(path, "r") as file:
            _check_names(file, shapes, path)
            return {name: _read(file[name], shapes[name], path) for name in shapes}
    except InputError:
        raise
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        raise _damaged(path) from None


def _check_names(file: Any, names: Iterable[str], where: str | Path) -> None:
    """Refuses a file that lacks one of the names, or holds others beside them."""
    members: dict[str, set[str]] = {}  # of each group, a parent before its children
    for name in names:
        parts = name.split("/")
        for depth, part in enumerate(parts):
            members.setdefault("/".join(parts[:depth]), set()).add(part)
    for path, expected in members.items():
        group = file[path] if path else file
        links = group.id.links
        prefix = f"{path}/" if path else ""
        for member in sorted(expected):
            if not links.exists(member.encode()):
                under = f"{prefix}{member}/"
                lost = min(name for name in names if f"{name}/".startswith(under))
                raise _foreign(where, "lacks", lost)
            if links.get_info(member.encode()).type != h5py.h5l.TYPE_HARD:
                raise ValueError  # it leads elsewhere
        other = _member_beside(links, {member.encode() for member in expected})
        if other is not None:
            name = other.decode(errors="replace")[:100]
            raise _foreign(where, "holds", prefix + name)


def _member_beside(links: Any, known: Any) -> Any:
    """The first name of a group that is none of these; None if there is none."""
    found = links.iterate(lambda name: None if name in known else name)
    return found[0] if isinstance(found, tuple) else found


def _read(dataset: Any, shape: Shape, where: str | Path) -> np.ndarray:
    if not isinstance(dataset, h5py.Dataset) or not _is_plain(dataset):
        raise ValueError
    if dataset.id.get_storage_size() == 0:  # never written
        raise ValueError
    name, dtype = dataset.name.removeprefix("/"), dataset.dtype
    if dtype.kind != "f":
        raise InputError(
            f"{where}: the weight {name!r} is an integer array, not floating point; "
            "copy the file again"
        )
    if not dtype.isnative or dtype.itemsize > 8:
        raise InputError(
            f"{where}: the weight {name!r} holds numbers of the type {dtype.str}, "
            f"which no model of this package has; save it as float32"
        )
    if dataset.shape != shape:
        raise _misshapen(where, name, dataset.shape, shape)
    return dataset[()]


def _missing(path: str | Path) -> InputError:
    return InputError(f"{path} is missing; the folder is not complete")


def _damaged(path: str | Path) -> InputError:
    return InputError(
        f"{path} is not a weights file of this package, or is cut off; copy it again"
    )


def _foreign(where: str | Path, verb: str, name: str) -> InputError:
    return InputError(
        f"{where} {verb} the weight {name!r}, unlike the model of its config; use the "
        f"file that belongs to this config"
    )


def _misshapen(where: str | Path, name: str, shape: Shape, needed: Shape) -> InputError:
    return InputError(
        f"{where}: the weight {name!r} has shape {tuple(shape)}, but the model of its "
        f"config needs {tuple(needed)}; use the file that belongs to this config"
    )


def assign(model: Any, arrays: Mapping[str, np.ndarray], where: str | Path) -> None:
    """Gives the model the weights `{path: array}`.

    Raises:
        InputError: where a weight is missing, left over, or of another shape; the
            model is then unchanged.
    """
    check_fit(model, arrays, where)
    for path, weight in named_weights(model).items():
        weight.assign(arrays[path])


def check_fit(model: Any, arrays: Mapping[str, np.ndarray], where: str | Path) -> None:
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
                f"{where}: the weight {path!r} is an integer array, not floating "
                "point; copy it"
            )
        if tuple(arrays[path].shape) != tuple(weight.shape):
            raise _misshapen(where, path, arrays[path].shape, weight.shape)


def save_weights(model: Any, path: str | Path) -> None:
    """Writes the model's weights, whole or not at all."""
    write_arrays(weight_values(model), path)
