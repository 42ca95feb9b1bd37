"""The processors of this machine that this process may use."""

import os


def num_threads():
    """How many run at once: OMP_NUM_THREADS where it is set, as in worker processes."""
    if hasattr(os, "sched_getaffinity"):
        count = len(os.sched_getaffinity(0))
    else:
        count = os.cpu_count() or 1
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wanted)) if wanted.isdigit() and int(wanted) else count
