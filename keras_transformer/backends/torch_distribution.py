"""PyTorch: the processes that `torchrun` starts, one for each device."""

from __future__ import annotations

import contextlib
import datetime
import functools
import os
from collections.abc import Iterator
from typing import Any

import torch

from keras_transformer.backends.distribution import Devices
from keras_transformer.backends.distribution import Distribution
from keras_transformer.errors import InputError

# How long a process waits for the others: they may prepare, say encode a corpus, for
# hours; while they train, the chief only writes checkpoints.
_LONG_WAIT, _WAIT = datetime.timedelta(days=1), datetime.timedelta(minutes=10)
_COMMAND = "torchrun --nproc-per-node 2 -m keras_transformer.cli.main train config.yaml"


@contextlib.contextmanager
def torchrun(devices: Devices) -> Iterator[Distribution]:
    """Processes on GPUs (nccl), or on CPUs (gloo)."""
    try:
        local_rank = int(os.environ["LOCAL_RANK"])
        local_processes = int(os.environ["LOCAL_WORLD_SIZE"])
    except (KeyError, ValueError):
        raise InputError(
            f"distribution torchrun: this process was not started by torchrun; use "
            f"{_COMMAND}"
        ) from None
    if devices not in ("all", local_processes):
        raise InputError(
            f"devices is {devices}, but torchrun started {local_processes} processes "
            f"here; use --nproc-per-node {devices}, or set devices to all"
        )
    gpus = torch.cuda.device_count()
    if gpus:
        if local_rank >= gpus:
            raise InputError(
                f"torchrun started {local_processes} processes for {gpus} GPUs; use "
                f"--nproc-per-node {gpus}"
            )
        torch.cuda.set_device(local_rank)
    torch.distributed.init_process_group("nccl" if gpus else "gloo", timeout=_WAIT)
    patient, usual = (
        torch.distributed.new_group(backend="gloo", timeout=timeout)
        for timeout in (_LONG_WAIT, _WAIT)
    )

    def largest(number: float, group: Any = usual) -> float:
        number = torch.tensor(float(number), device="cpu")
        maximum = torch.distributed.ReduceOp.MAX
        torch.distributed.all_reduce(number, maximum, group)
        return float(number)

    rank = torch.distributed.get_rank()
    processes = torch.distributed.get_world_size()
    try:
        yield Distribution(
            num_replicas=processes,
            process_index=rank,
            num_processes=processes,
            part=(rank, processes),
            max=largest,
            patient_max=functools.partial(largest, group=patient),
        )
    finally:
        torch.distributed.destroy_process_group()


distributions = {"torchrun": torchrun}
