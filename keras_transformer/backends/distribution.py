"""Devices and processes of a training: data and model parallelism, on any backend."""

import math
from collections.abc import Callable
from typing import NamedTuple


class Distribution(NamedTuple):
    """The devices and processes that share each step.

    Attributes:
        num_replicas: shares of a batch that are computed at the same time; the rows
            of a global batch must divide by it (and by `model.micro_batches`).
        process_index: this process, from 0.
        num_processes: how many run the same program.
        part: (index, count): the rows of each global batch that this process gives to
            `fit` and `evaluate`. (0, 1), all of them, unless the backend wants each
            process to read its own.
        max: the largest of the numbers that the processes give, in float32; each
            process must ask, after the same step.
    """

    num_replicas: int = 1
    process_index: int = 0
    num_processes: int = 1
    part: tuple[int, int] = (0, 1)
    max: Callable[[float], float] = float

    @property
    def is_chief(self) -> bool:
        """Whether this is the one process that writes files and talks."""
        return self.process_index == 0

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in any process; each asks, as for `max`."""
        return self.max(flag) > 0

    def wait(self) -> None:
        """Until every process has come here; each must, as for `max`."""
        self.max(0.0)

    def chiefs(self, number: float) -> float:
        """The number that the chief gives; each process asks, as for `max`."""
        return self.max(number if self.is_chief else -math.inf)
