"""Cache of compiled programs: bounded, and each compiled once."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import Any

#: Maximum number of programs kept per function. A program takes megabytes, and each new
#: shape or option needs another one. (TensorFlow never frees what XLA has compiled.)
MOST_PROGRAMS = 128


def kept(make: Callable[..., Any]) -> Callable[..., Any]:
    """`make(*key)`, called once for each key; the longest unused results are dropped.

    Any number of threads may call it at once.
    """
    cached = functools.lru_cache(MOST_PROGRAMS)(make)
    lock = threading.Lock()  # otherwise two threads could build the same one

    def get(*key: Any) -> Any:
        with lock:
            return cached(*key)

    return get


class FirstAlone:
    """A function whose first call compiles it while all other calls wait."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._lock: threading.Lock | None = threading.Lock()

    def __call__(self, *arguments: Any) -> Any:
        lock = self._lock
        if lock is None:
            return self._function(*arguments)
        with lock:
            result = self._function(*arguments)
            self._lock = None
        return result
