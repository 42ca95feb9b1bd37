"""Distributed training: the `distribution` and `devices` of a run.

Every process runs the same program: it builds the model, fits, evaluates, translates
the same lines and reads the same checkpoints; only the chief writes files and talks.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from keras_transformer import backends
from keras_transformer.backends.distribution import Devices
from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError
from keras_transformer.training.config.training_section import DISTRIBUTIONS

# Fragments of the frameworks' messages about a peer that does not answer.
_SIGNS = ("collective", "connection", "gloo", "heartbeat", "nccl", "peer")


class WorkerLost(Exception):
    """Another training process has ended; this one cannot continue.

    Attributes:
        exit_code: the exit code of a program that ends by it.
    """

    exit_code = 1


@contextlib.contextmanager
def open_distribution(
    kind: str = "none", devices: Devices = "all"
) -> Iterator[Distribution]:
    """Everything inside runs on these devices: model, `compile`, `fit`, `evaluate`.

    To be opened before anything of the backend has run: before seeds and variables.
    The number of rows of a batch must be a multiple of `num_replicas` (times
    `model.micro_batches`); `rows_multiple_of` adds rows of padding. Each process passes
    its share `part` to `fit`:

        with open_distribution("data_parallel", devices=4) as distribution:
            keras.utils.set_random_seed(1)
            batches = TokenBatches(pairs, rows_multiple_of=distribution.num_replicas)
            model = Transformer(config)
            model.compile(...)
            model.fit(batches.from_step(0, part=distribution.part), ...)

    Args:
        kind: "none": one device, the backend's first. TensorFlow: "mirrored", the
            devices of this process, or "multi_worker", the processes that TF_CONFIG
            names. JAX: "data_parallel", each device has all weights, or
            "model_parallel", the devices of a process share them; several processes
            join by KERAS_DISTRIBUTION_JOB_ADDRESSES, _NUM_PROCESSES and _PROCESS_ID.
            PyTorch: "torchrun", the processes that it starts.
        devices: "all", or the number per process: GPUs, or that many logical CPUs where
            there are no GPUs.

    Yields:
        A `Distribution`: `num_replicas`, `part`, `process_index`, `num_processes`,
        `is_chief`, and the collective `max(number)`, `any(flag)`, `chiefs(number)` and
        `wait()`.

    Raises:
        InputError: where the kind belongs to another backend, devices are missing, or
            the environment does not name the processes.
        WorkerLost: within a minute after another process has died.
    """
    if kind == "none":
        if devices != "all":
            raise InputError(
                f"devices {devices} needs a distribution; set distribution to "
                f"{_choices()}, or set devices to all"
            )
        yield Distribution()
        return
    if kind not in backends.distributions:
        owner = DISTRIBUTIONS.get(kind)
        reason = f"belongs to the {owner} backend" if owner else "unknown"
        raise InputError(
            f"distribution {kind}: {reason}; the {backends.name} backend, which is "
            f"active, has {_choices()}"
        )
    with backends.distributions[kind](devices) as distribution:
        try:
            yield distribution
        except Exception as error:
            if distribution.num_processes > 1 and _tells_of_a_lost_peer(error):
                cause = str(error).strip().partition("\n")[0]
                raise WorkerLost(
                    "another process of this training has ended; start all of them "
                    "again with the same command to resume from the last checkpoint "
                    f"({type(error).__name__}: {cause})"
                ) from error
            raise


def _tells_of_a_lost_peer(error: BaseException) -> bool:
    # An `OSError` is of a file or a connection of this process' own, say of a callback.
    if isinstance(error, (InputError, OSError)):
        return False
    text = str(error).lower()
    return any(sign in text for sign in _SIGNS)


def _choices() -> str:
    return " and ".join(backends.distributions)
