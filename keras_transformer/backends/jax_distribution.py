"""JAX: `keras.distribution`, over the devices of one or of several processes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from typing import Any

import jax
import keras
import numpy as np
from jax.experimental import multihost_utils

from keras_transformer.backends.distribution import Devices
from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError

_VARIABLES = [
    "KERAS_DISTRIBUTION_JOB_ADDRESSES",
    "KERAS_DISTRIBUTION_NUM_PROCESSES",
    "KERAS_DISTRIBUTION_PROCESS_ID",
]
_COMMAND = (
    "KERAS_DISTRIBUTION_JOB_ADDRESSES=host0:2222 KERAS_DISTRIBUTION_NUM_PROCESSES=2 "
    "KERAS_DISTRIBUTION_PROCESS_ID=0 keras-transformer train config.yaml"
)
# Time without a heartbeat after which a process counts as dead; and how long a failing
# process waits for the others, which JAX then aborts.
_HEARTBEAT_SECONDS = 20


@contextlib.contextmanager
def data_parallel(devices: Devices) -> Iterator[Distribution]:
    """Each device computes with all weights on its rows of a batch."""
    names = _devices(devices)
    distribution = keras.distribution.DataParallel(
        devices=names.ravel().tolist(), auto_shard_dataset=False
    )
    with distribution.scope():
        yield _described(num_replicas=names.size)


@contextlib.contextmanager
def model_parallel(devices: Devices) -> Iterator[Distribution]:
    """The devices of a process share the weights; processes share the rows."""
    names = _devices(devices)
    mesh = keras.distribution.DeviceMesh(names.shape, ("batch", "model"), names)
    distribution = _ModelParallel(
        layout_map=layout_map(mesh), batch_dim_name="batch", auto_shard_dataset=False
    )
    with distribution.scope():
        yield _described(num_replicas=names.shape[0])


def layout_map(mesh: keras.distribution.DeviceMesh) -> keras.distribution.LayoutMap:
    """The layout map: how the mesh axis "model" splits the weights of models.

    Attention is split by heads, feed-forward layers by inner features, an SSRU by its
    states, embeddings by vocabulary; the rest is replicated on each device.

    Reference: Shoeybi et al., 2019, https://arxiv.org/abs/1909.08053.
    """
    layouts = keras.distribution.LayoutMap(mesh)
    columns = ("query", "key", "value", "inner", "gate", "input", "forget")
    for projection in columns:
        layouts[f".*/{projection}_kernel$"] = (None, "model")
        layouts[f".*/{projection}_bias$"] = ("model",)
    for kernel in ("output_kernel", "outer_kernel"):
        layouts[f".*/{kernel}$"] = ("model", None)
    layouts[r".*embedding/embeddings$"] = ("model", None)
    layouts[r".*embedding/bias$"] = ("model",)
    return layouts


class _ModelParallel(keras.distribution.ModelParallel):
    """Replicates weights that do not divide evenly, such as an odd vocabulary.

    So are Adafactor's row and column statistics, which have the weight's name.
    """

    def get_variable_layout(self, variable: Any) -> Any:
        layout = super().get_variable_layout(variable)
        mesh = self.device_mesh
        sizes = dict(zip(mesh.axis_names, mesh.shape, strict=True))
        axes = zip(layout.axes, variable.shape, strict=False)
        if len(layout.axes) == len(variable.shape) and all(
            axis is None or size % sizes[axis] == 0 for axis, size in axes
        ):
            return layout
        return keras.distribution.TensorLayout([None] * len(variable.shape), mesh)


def _described(num_replicas: int) -> Distribution:
    process, processes = jax.process_index(), jax.process_count()

    def largest(number: float) -> float:
        if processes == 1:
            return float(number)
        return float(multihost_utils.process_allgather(np.float32(number)).max())

    # Gloo allows 30 s for the first connection of processes. All have just joined here;
    # later, the chief may encode a corpus for hours.
    largest(0.0)
    return Distribution(
        num_replicas=num_replicas,
        process_index=process,
        num_processes=processes,
        part=(process, processes),
        max=largest,
    )


def _devices(wanted: Devices) -> np.ndarray:
    """Names of the devices to use, (processes, devices per process)."""
    if wanted != "all":
        with contextlib.suppress(RuntimeError):  # has started: see how many there are
            jax.config.update("jax_num_cpu_devices", wanted)
    _join_processes()
    table = []
    for process in range(jax.process_count()):
        local = jax.local_devices(process_index=process)
        if wanted != "all" and len(local) < wanted:
            raise InputError(
                f"devices is {wanted}, but JAX has started with {len(local)} on the "
                f"platform {local[0].platform}; give at most that number, or open "
                "the distribution before JAX is used"
            )
        local = local if wanted == "all" else local[:wanted]
        table.append([f"{device.platform}:{device.id}" for device in local])
    return np.array(table)


def _join_processes() -> None:
    """Joins the other processes, if the environment names any."""
    values = [os.environ.get(variable) for variable in _VARIABLES]
    if not any(values) or jax.distributed.is_initialized():
        return
    try:
        addresses, *numbers = values
        count, index = (int(number or "") for number in numbers)
        if not addresses or not 0 <= index < count:
            raise ValueError
    except (TypeError, ValueError):
        settings = " ".join(
            f"{variable}={value or ''}"
            for variable, value in zip(_VARIABLES, values, strict=True)
        )
        raise InputError(
            f"several processes need all three of {settings}; start each with a "
            f"different process id: {_COMMAND}"
        ) from None
    jax.distributed.initialize(
        addresses.split(",")[0],
        count,
        index,
        heartbeat_timeout_seconds=_HEARTBEAT_SECONDS,
        shutdown_timeout_seconds=_HEARTBEAT_SECONDS,
    )


distributions = {"data_parallel": data_parallel, "model_parallel": model_parallel}
