"""The memory of the processor, where that is the device that trains."""

import os
import sys
from pathlib import Path

_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux


def peak_memory():
    """The most bytes that this process has ever held."""
    import resource  # not on Windows

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def memory_limit():
    """Bytes that this process could hold: the machine's, or its container's."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = _GROUP_LIMIT.read_text().strip() if _GROUP_LIMIT.exists() else "max"
    return limit if group == "max" else min(limit, int(group))
