"""The processors of this machine that this process may use."""

import os


def num_processors() -> int:
    """How many run at once."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def num_threads() -> int:
    """The number of CPUs of this process, at most OMP_NUM_THREADS, as in workers."""
    count = num_processors()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wanted)) if wanted.isdigit() and int(wanted) else count
