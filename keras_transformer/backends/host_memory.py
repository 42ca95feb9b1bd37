"""Host memory: what a process takes of it, and arrays that backends keep."""

from __future__ import annotations

import contextlib
import ctypes
import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from keras_transformer.errors import InputError
from keras_transformer.tensors import Shape

_IS_WINDOWS = os.name == "nt"
_ALIGNMENT = 64  # bytes
# Linux only: elsewhere the peak covers the whole life of the process.
_RESET, _STATUS = Path("/proc/self/clear_refs"), Path("/proc/self/status")
# The control group of this process, and the root of all groups, by which containers and
# batch systems limit memory.
_GROUP, _GROUPS = Path("/proc/self/cgroup"), Path("/sys/fs/cgroup")


def peak_memory(function: Callable[[], Any]) -> int:
    """The peak memory of this process while it runs `function()`, in bytes.

    With glibc or tcmalloc, free heap memory is returned to the system first.
    """
    if _RESET.exists():
        give_back()
        _RESET.write_text("5")  # resets the peak
        function()
        status = _STATUS.read_text().splitlines()
        (line,) = (line for line in status if line.startswith("VmHWM:"))
        return int(line.split()[1]) * 1024
    try:
        import resource
    except ModuleNotFoundError:
        raise InputError(
            "Windows does not say how much memory a training step takes; give "
            "data.batch_tokens a number"
        ) from None
    function()
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # macOS counts bytes


def give_back() -> None:
    """Returns free memory of the heap to the system, with glibc or tcmalloc."""
    if _IS_WINDOWS:
        return
    program = ctypes.CDLL(None)
    getattr(program, "MallocExtension_ReleaseFreeMemory", lambda: None)()
    getattr(program, "malloc_trim", lambda _: None)(0)


def free_heap_memory() -> int:
    """The bytes that tcmalloc keeps for later use; 0 with another allocator."""
    if _IS_WINDOWS:
        return 0
    program = ctypes.CDLL(None)
    if not hasattr(program, "MallocExtension_GetNumericProperty"):
        return 0
    size = ctypes.c_size_t()
    name = b"tcmalloc.pageheap_free_bytes"
    program.MallocExtension_GetNumericProperty(name, ctypes.byref(size))
    return size.value


def memory_limit() -> float:
    """The bytes available to this process: of the machine, or of its control group."""
    return min(_memory_of_machine(), *_group_limits())


def _memory_of_machine() -> int:
    if not _IS_WINDOWS:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    kilobytes = ctypes.c_ulonglong()
    system: Any = ctypes  # its Windows functions are on Windows alone
    system.windll.kernel32.GetPhysicallyInstalledSystemMemory(ctypes.byref(kilobytes))
    return kilobytes.value * 1024


def _group_limits() -> list[float]:
    """The limits of this process' group and of all its parents."""
    limits = [math.inf]
    if _GROUP.exists():
        name = _GROUP.read_text().rpartition("::")[2].strip()  # version 2, or none
        group = _GROUPS / name.lstrip("/")
        for folder in (group, *group.parents):
            with contextlib.suppress(OSError, ValueError):  # none here, or "max"
                limits.append(int((folder / "memory.max").read_text()))
    return limits


def aligned_zeros(shape: Shape, dtype: Any) -> np.ndarray:
    """Zeros that begin where a backend would let them begin.

    JAX keeps such an array as it is, where it copies another. The system gives its
    memory only when it is written.
    """
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.zeros(size + _ALIGNMENT, np.uint8)
    begin = -memory.ctypes.data % _ALIGNMENT
    return memory[begin : begin + size].view(dtype).reshape(shape)
