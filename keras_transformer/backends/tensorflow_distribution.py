"""TensorFlow: strategies of tf.distribute, which Keras' `fit` supports."""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator
from typing import Any

import tensorflow as tf

from keras_transformer.backends.distribution import Devices
from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError
from keras_transformer.tensors import Tensor

_COMMAND = (
    'TF_CONFIG=\'{"cluster": {"worker": ["host0:2222", "host1:2222"]}, "task": '
    '{"type": "worker", "index": 0}}\' keras-transformer train config.yaml'
)


def several_workers(strategy: tf.distribute.Strategy) -> bool:
    """Whether several processes take part in a strategy."""
    multi_worker = tf.distribute.MultiWorkerMirroredStrategy
    return isinstance(strategy, multi_worker) and strategy.cluster_resolver is not None


@contextlib.contextmanager
def mirrored(devices: Devices) -> Iterator[Distribution]:
    """One process, several GPUs, or logical CPUs."""
    gpus = tf.config.list_logical_devices("GPU") if _gpus() else []
    if gpus:
        _check_gpus(devices, len(gpus))
        names = [gpu.name for gpu in gpus]
    else:
        names = _logical_cpus(1 if devices == "all" else devices)
    strategy = tf.distribute.MirroredStrategy(
        names if devices == "all" else names[:devices]
    )
    with strategy.scope():
        yield Distribution(num_replicas=strategy.num_replicas_in_sync)


@contextlib.contextmanager
def multi_worker(devices: Devices) -> Iterator[Distribution]:
    """Several processes that `TF_CONFIG` names; each uses its GPUs, or its CPU."""
    workers, index = _cluster()
    gpus = _gpus()
    if devices != "all":
        _check_gpus(devices, len(gpus) or 1)
        if gpus:
            tf.config.set_visible_devices(gpus[:devices], "GPU")
    strategy = tf.distribute.MultiWorkerMirroredStrategy()

    def gather(value: Tensor) -> Tensor:
        context = tf.distribute.get_replica_context()
        # A copy on the device of the replica, where values are sent.
        return context.all_gather(tf.identity(value), axis=0)

    @tf.function(autograph=False)
    def run(value: Tensor) -> Tensor:
        return strategy.run(gather, args=(value,))

    def largest(number: float) -> float:
        numbers = run(tf.constant([number], tf.float32))
        return float(max(strategy.experimental_local_results(numbers)[0].numpy()))

    with strategy.scope():
        yield Distribution(
            num_replicas=strategy.num_replicas_in_sync,
            process_index=index,
            num_processes=workers,
            max=largest,
        )


def _cluster() -> tuple[int, int]:
    """The number of workers in `TF_CONFIG`, and the index of this one."""
    text = os.environ.get("TF_CONFIG", "")
    try:
        settings = json.loads(text)
        (workers,) = settings["cluster"].values()
        task = settings["task"]
        (kind,) = settings["cluster"]
        index = int(task["index"])
        if kind != "worker" or task["type"] != kind or not 0 <= index < len(workers):
            raise ValueError
    except (AttributeError, KeyError, TypeError, ValueError):
        fault = f"holds {text!r}" if text else "is not set"
        raise InputError(
            f"distribution multi_worker: the environment variable TF_CONFIG {fault}; "
            f"start each worker with its own index: {_COMMAND}"
        ) from None
    return len(workers), index


def _gpus() -> list[Any]:
    return tf.config.list_physical_devices("GPU")


def _check_gpus(devices: Devices, found: int) -> None:
    if devices != "all" and devices > found:
        raise InputError(
            f"devices is {devices}, but {found} can be used here; give at most that, "
            f"or all"
        )


def _logical_cpus(count: int) -> list[str]:
    cpu = tf.config.list_physical_devices("CPU")[0]
    configured = tf.config.get_logical_device_configuration(cpu) or [None]
    if len(configured) < count:
        try:
            tf.config.set_logical_device_configuration(
                cpu, [tf.config.LogicalDeviceConfiguration()] * count
            )
        except RuntimeError:
            raise InputError(
                f"devices is {count}, but TensorFlow has started with "
                f"{len(configured)} logical CPUs; open the distribution before "
                "TensorFlow is used"
            ) from None
    return [f"CPU:{index}" for index in range(count)]


distributions = {"mirrored": mirrored, "multi_worker": multi_worker}
