"""Compiled programs: how many are kept, and that each is compiled once."""

import functools
import threading

#: So many of one function are kept. A program takes megabytes, and each new shape or
#: option makes another one. (TensorFlow never frees what XLA has compiled for it.)
MOST_PROGRAMS = 128


def kept(make):
    """`make(*key)`, called once for each key; the longest unused results are dropped.

    Any number of threads may call it at once.
    """
    cached = functools.lru_cache(MOST_PROGRAMS)(make)
    lock = threading.Lock()  # else two threads could make the same one

    def get(*key):
        with lock:
            return cached(*key)

    return get


class FirstAlone:
    """A function whose first call all others wait for: of those one compiles it."""

    def __init__(self, function):
        self._function = function
        self._lock: threading.Lock | None = threading.Lock()

    def __call__(self, *arguments):
        lock = self._lock
        if lock is None:
            return self._function(*arguments)
        with lock:
            result = self._function(*arguments)
            self._lock = None
        return result
