"""The processors of this machine that this process may use."""

import os


def num_processors() -> int:
    """How many run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
