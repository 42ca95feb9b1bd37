"""Devices and processes in training: data and model parallelism, on any backend."""

import math
from collections.abc import Callable
from typing import Literal
from typing import NamedTuple
from typing import TypeAlias

#: How many devices to use.
Devices: TypeAlias = int | Literal["all"]


class Distribution(NamedTuple):
    """The devices and processes that share each step.

    Attributes:
        num_replicas: the number of shares of a batch that are computed at the same
            time; the rows of a global batch must be a multiple of it (and of
            `model.micro_batches`).
        process_index: this process, from 0.
        num_processes: the number of processes of the same program.
        part: (index, count): the rows of each global batch that this process passes to
            `fit` and `evaluate`. (0, 1), all of them, unless the backend expects each
            process to read its share.
        max: the largest of the numbers that the processes pass, in float32; collective:
            each process must call it after the same step.
        patient_max: `max` for while some of them prepare, which may take hours.
            Default: `max`, of backends that wait as long anyway.
    """

    num_replicas: int = 1
    process_index: int = 0
    num_processes: int = 1
    part: tuple[int, int] = (0, 1)
    max: Callable[[float], float] = float
    patient_max: Callable[[float], float] | None = None

    @property
    def is_chief(self) -> bool:
        """Whether this is the process that writes files and prints."""
        return self.process_index == 0

    def any(self, flag: bool) -> bool:
        """Whether a flag is set in any process; collective, as `max`."""
        return self.max(flag) > 0

    def wait(self) -> None:
        """Waits for all processes (a barrier); collective, as `max`."""
        self.max(0.0)

    def wait_for_preparation(self) -> None:
        """`wait` for processes that prepare the training, which may take hours."""
        (self.patient_max or self.max)(0.0)

    def chiefs(self, number: float) -> float:
        """The number that the chief passes; collective, as `max`."""
        return self.max(number if self.is_chief else -math.inf)
