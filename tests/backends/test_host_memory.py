"""The memory that an allocator keeps."""

import ctypes
import ctypes.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from keras_transformer.backends import host_memory
from keras_transformer.errors import InputError
from keras_transformer.training.callbacks import ReleaseMemory

_TCMALLOC = ctypes.util.find_library("tcmalloc_minimal")

_PROGRAM = """
import numpy as np

from keras_transformer.backends.host_memory import free_heap_memory
from keras_transformer.training.callbacks import ReleaseMemory

np.ones(2**28, np.uint8)  # freed at once
print(free_heap_memory() > 2**28 - 1)
ReleaseMemory(limit=2**30).on_train_batch_end(0)
print(free_heap_memory() > 2**28 - 1)
ReleaseMemory(limit=2**27).on_train_batch_end(0)
print(free_heap_memory() < 2**27)
"""


@pytest.mark.skipif(_TCMALLOC is None, reason="tcmalloc is not installed")
def test_what_tcmalloc_keeps_is_returned_above_a_limit():
    variables = {"LD_PRELOAD": _TCMALLOC, "TCMALLOC_RELEASE_RATE": "0"}
    found = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
    )
    assert found.stdout.split() == ["True"] * 3


def test_nothing_is_returned_at_or_below_the_limit(monkeypatch):
    released = []
    monkeypatch.setattr(host_memory, "free_heap_memory", lambda: 100)
    monkeypatch.setattr(host_memory, "give_back", lambda: released.append(1))
    ReleaseMemory(limit=100).on_train_batch_end(0)
    assert not released
    ReleaseMemory(limit=99).on_train_batch_end(0)
    assert released
    monkeypatch.setattr(host_memory, "memory_limit", lambda: 1600)
    assert ReleaseMemory().limit == 100


def test_another_allocator_keeps_nothing_that_is_known(monkeypatch):
    monkeypatch.setattr(host_memory.ctypes, "CDLL", lambda name: object())
    assert host_memory.free_heap_memory() == 0
    host_memory.give_back()


def test_on_windows_the_heap_is_left_alone_and_the_machine_says_its_memory(monkeypatch):
    """Which has neither `sysconf` nor `resource`, nor a library of the process."""

    def library(name):
        raise TypeError("not on Windows")

    def installed_memory(kilobytes):
        ctypes.cast(kilobytes, ctypes.POINTER(ctypes.c_ulonglong))[0] = 16_000
        return 1

    system = types.SimpleNamespace(
        kernel32=types.SimpleNamespace(
            GetPhysicallyInstalledSystemMemory=installed_memory
        )
    )
    monkeypatch.setattr(host_memory, "_IS_WINDOWS", True)
    monkeypatch.setattr(host_memory, "_RESET", Path("none"))
    monkeypatch.setattr(host_memory, "_GROUP", Path("none"))
    monkeypatch.setattr(host_memory.ctypes, "CDLL", library)
    monkeypatch.setattr(host_memory.ctypes, "windll", system, raising=False)
    monkeypatch.delattr(os, "sysconf")
    monkeypatch.setitem(sys.modules, "resource", None)
    release = ReleaseMemory()
    release.on_train_batch_end(0)
    assert release.limit == 1000 * 1024
    host_memory.give_back()
    with pytest.raises(InputError, match=r"give data\.batch_tokens a number"):
        host_memory.peak_memory(lambda: None)
