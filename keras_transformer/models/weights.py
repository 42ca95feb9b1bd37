"""Weights on disk under stable names, the same on every backend.

An HDF5 file with one dataset per weight. Its name is the weight's path, built from the
names that this package gives its layers (`encoder_0/self_attention/query_kernel`), not
from class names or creation order: renaming a class breaks no file.
"""

from __future__ import annotations

import contextlib
import io
import math
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from keras_transformer import backends
from keras_transformer.backends.host_memory import aligned_zeros
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import new_file
from keras_transformer.tensors import Shape

_ADAPTER = "_lora_a"  # the end of the names of adapters, see `layers.kernels`


def named_weights(model: Any) -> dict[str, Any]:
    """`{path: variable}` of all weights, without the state of dropout."""
    return {weight.path: weight for weight in model.weights}


def plain_weights(model: Any) -> dict[str, Any]:
    """`named_weights` without adapters (LoRA): those of a model folder."""
    adapters = model.adapter_paths
    return {p: w for p, w in named_weights(model).items() if p not in adapters}


class _WeightValues(Mapping[str, np.ndarray]):
    """Copies of a model's weights, each made when it is asked for."""

    def __init__(self, model: Any) -> None:
        self._weights = model.merged_weights()

    def __getitem__(self, path: str) -> np.ndarray:
        return _copy(self._weights[path])

    def __iter__(self) -> Iterator[str]:
        return iter(self._weights)

    def __len__(self) -> int:
        return len(self._weights)


def lazy_values(model: Any) -> Mapping[str, np.ndarray]:
    """`weight_values`, each a copy that is made when it is asked for."""
    return _WeightValues(model)


def weight_values(model: Any) -> dict[str, np.ndarray]:
    """`{path: float32 array}`, copies; adapters (LoRA) are added to their matrices."""
    return dict(lazy_values(model))


def separate_values(model: Any) -> dict[str, np.ndarray]:
    """`weight_values` with adapters (LoRA) apart from their matrices."""
    return {path: _copy(weight) for path, weight in named_weights(model).items()}


def _copy(weight: Any) -> np.ndarray:
    return backends.to_numpy(weight).astype("float32", copy=False)


def merged(arrays: Mapping[str, np.ndarray], scale: float) -> dict[str, np.ndarray]:
    """`weight_values`, from `separate_values`.

    Args:
        arrays: `{path: array}`.
        scale: that of the adapters.
    """
    merged = dict(arrays)
    for name in [name for name in arrays if name.endswith(_ADAPTER)]:
        matrix = name.removesuffix(_ADAPTER)
        update = merged.pop(name) @ merged.pop(f"{matrix}_lora_b")
        merged[matrix] = merged[matrix] + np.float32(scale) * update
    return merged


def first_broken(arrays: Mapping[str, np.ndarray]) -> str | None:
    """The first path of `{path: array}` with a number that is not finite, or None."""
    return next((path for path in arrays if not is_finite(arrays[path])), None)


def is_finite(values: np.ndarray) -> bool:
    """Whether all numbers are finite. It takes no memory, as `np.isfinite` does."""
    ends = values.min(initial=0), values.max(initial=0)  # NaN where one is NaN
    return bool(np.isfinite(ends).all())


class _Output(io.FileIO):
    """A file that HDF5 writes to, which keeps the first error of the system.

    HDF5 hides what is wrong, and does not get over it: it is told that all is well.
    """

    error: OSError | None = None

    def write(self, content: Any, /) -> int:
        rest = memoryview(content).cast("B")
        try:
            while rest and self.error is None:
                rest = rest[super().write(rest) :]
        except OSError as error:
            self.error = error
        return len(content)

    def check(self) -> None:
        """Raises the error, if there was one."""
        if self.error is not None:
            raise self.error


def write_arrays(arrays: Mapping[str, np.ndarray], path: str | Path) -> None:
    """Writes `{name: array}`, whole or not at all.

    Each array is asked for when it is written, and not kept.
    """
    try:
        with new_file(Path(path)) as temporary, _Output(temporary, "w+") as output:
            with h5py.File(output, "w") as file:
                for name in arrays:
                    file.create_dataset(name, data=arrays[name])
                    output.check()
            output.check()
    except OSError as error:
        raise InputError(
            f"cannot write {path}: {error.strerror}; check the folder and its disk"
        ) from None


def read_arrays(path: str | Path) -> dict[str, np.ndarray]:
    """The arrays of a file of `write_arrays`, from a run's own files.

    Only numbers that are stored plainly are read, so that the file can neither refer to
    other files nor expand to more than its size.

    Raises:
        InputError: where the file is missing, truncated or something else.
    """
    path = Path(path)
    arrays = {}
    remaining = 0

    def visit(name: str, item: Any) -> None:
        nonlocal remaining
        if not isinstance(item, h5py.Dataset):
            return
        if not _is_plain(item):
            raise ValueError
        remaining -= math.prod(item.shape) * item.dtype.itemsize
        if remaining < 0:
            raise ValueError
        arrays[name] = item[()]

    try:
        with h5py.File(path, "r") as file:
            remaining = path.stat().st_size
            file.visititems(visit)  # does not follow links
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        raise _damaged(path) from None
    return arrays


def _is_plain(dataset: Any) -> bool:
    """Whether its numbers are stored plainly: not external, compressed or chunked."""
    return (
        dataset.shape is not None
        and dataset.dtype.kind in "fiub"
        and not dataset.external
        and not dataset.is_virtual
        and dataset.chunks is None
    )


class _StoredWeights(Mapping[str, np.ndarray]):
    """The weights of an open file, each read when it is asked for."""

    def __init__(self, file: Any, names: Iterable[str]) -> None:
        self._datasets = {name: file[name] for name in names}

    def __getitem__(self, path: str) -> np.ndarray:
        dataset = self._datasets[path]
        values = aligned_zeros(dataset.shape, dataset.dtype)
        if values.size:
            dataset.read_direct(values)
        return values

    def __iter__(self) -> Iterator[str]:
        return iter(self._datasets)

    def __len__(self) -> int:
        return len(self._datasets)


@contextlib.contextmanager
def stored_weights(
    path: str | Path, shapes: Mapping[str, Shape]
) -> Iterator[Mapping[str, np.ndarray]]:
    """The weights of an untrusted file, each read when it is asked for.

    Only the groups and weights named here are read, so that other content costs
    nothing.

    Args:
        path: of the file.
        shapes: `{path: shape}` of the weights.

    Returns:
        A context manager of `{path: array}` of these.

    Raises:
        InputError: where the file is missing, truncated or something else, or a weight
            is missing, left over, of another shape, or not plain float numbers; before
            any is read, as far as the file tells it.
    """
    try:
        with h5py.File(path, "r") as file:
            _check_names(file, shapes, path)
            for name in shapes:
                _check_dataset(file[name], shapes[name], path)
            yield _StoredWeights(file, shapes)
    except InputError:
        raise
    except FileNotFoundError:
        raise _missing(path) from None
    except (OSError, RuntimeError, KeyError, TypeError, ValueError):
        raise _damaged(path) from None


def _check_names(file: Any, names: Iterable[str], where: str | Path) -> None:
    """Refuses a file that lacks one of the names, or has others besides."""
    members: dict[str, set[str]] = {}  # per group, a parent before its children
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
                raise ValueError  # a link to another place
        other = _member_beside(links, {member.encode() for member in expected})
        if other is not None:
            name = other.decode(errors="replace")[:100]
            raise _foreign(where, "holds", prefix + name)


def _member_beside(links: Any, known: Any) -> Any:
    """The first name of a group that is not one of these, or None."""
    member = links.iterate(lambda name: None if name in known else name)
    return member[0] if isinstance(member, tuple) else member


def _check_dataset(dataset: Any, shape: Shape, where: str | Path) -> None:
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
            "which models of this package do not use; save it as float32"
        )
    if dataset.shape != shape:
        raise _misshapen(where, name, dataset.shape, shape)


def _missing(path: str | Path) -> InputError:
    return InputError(f"{path} is missing: the folder is incomplete; copy it again")


def _damaged(path: str | Path) -> InputError:
    return InputError(
        f"{path} is not a weights file of this package, or is truncated; copy it again"
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
    """Assigns the weights `{path: array}` to the model; adapters (LoRA) add nothing.

    Raises:
        InputError: where a weight is missing, left over, or of another shape; the
            model is then unchanged.
    """
    weights = plain_weights(model)
    check_fit(weights, arrays, where)
    for path, weight in weights.items():
        weight.assign(arrays[path])
    model.clear_adapters()


def assign_separate(
    model: Any, arrays: Mapping[str, np.ndarray], where: str | Path
) -> None:
    """Assigns `separate_values`; raises as `assign` does."""
    weights = named_weights(model)
    check_fit(weights, arrays, where)
    for path, weight in weights.items():
        weight.assign(arrays[path])


def check_fit(
    weights: Mapping[str, Any], arrays: Mapping[str, np.ndarray], where: str | Path
) -> None:
    """Raises as `assign` does, without assigning.

    Args:
        weights: `{path: variable}`.
        arrays: `{path: array}`.
        where: the file, for messages.
    """
    missing, foreign = weights.keys() - arrays.keys(), arrays.keys() - weights.keys()
    if missing or foreign:
        verb, name = ("lacks", min(missing)) if missing else ("holds", min(foreign))
        raise InputError(
            f"{where} {verb} the weight {name!r}, unlike the model of its config "
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
    """Writes the model's weights, whole or not at all, one at a time."""
    write_arrays(lazy_values(model), path)
