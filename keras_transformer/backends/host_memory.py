"""The memory of the processor, where that is the device that trains."""

import ctypes
import os
from pathlib import Path

# Of Linux: elsewhere the peak is that of the whole life of the process.
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
_GROUP_LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container on Linux


def peak_memory(function):
    """The most bytes that this process holds while it runs `function()`.

    With glibc or tcmalloc, what earlier work left in the heap is given back first.
    """
    if _RESET.exists():
        _give_back()
        _RESET.write_text("5")  # the peak begins anew
        function()
        status = _STATUS.read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    import resource  # not on Windows

    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes


def _give_back():
    program = ctypes.CDLL(None)
    getattr(program, "MallocExtension_ReleaseFreeMemory", lambda: None)()
    getattr(program, "malloc_trim", lambda _: None)(0)


def memory_limit():
    """Bytes that this process could hold: the machine's, or its container's."""
    limit = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    group = _GROUP_LIMIT.read_text().strip() if _GROUP_LIMIT.exists() else "max"
    return limit if group == "max" else min(limit, int(group))
