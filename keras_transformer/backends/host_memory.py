"""The memory of the processor, where that is the device that trains."""

import contextlib
import ctypes
import math
import os
from pathlib import Path

# Of Linux: elsewhere the peak is that of the whole life of the process.
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
# The control group of this process, and all groups: containers and batch systems have
# each group limited.
_GROUP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


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
    """Bytes that this process could hold: the machine's, or its control group's."""
    machine = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min(machine, *_group_limits())


def _group_limits():
    """Of the group of this process and of all groups around it."""
    limits = [math.inf]
    if _GROUP.exists():
        name = _GROUP.read_text().rpartition("::")[2].strip()  # version 2, or nothing
        group = _GROUPS / name.lstrip("/")
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # none here, or "max"
                limits.append(int((folder / "memory.max").read_text()))
    return limits
