"""Limit on the open connections of a process: each is a file to the system."""

import os

from keras_transformer.errors import InputError
from keras_transformer.serving.protocol import SPARE_CONNECTIONS

_LONGEST_BACKLOG = 1024  # connections that wait to be taken, and are taken at once
_SHORT_BACKLOG = 64
_OTHER_FILES = 32  # what the model and the standard library open meanwhile
_OPEN_ALREADY = 128  # where the system does not tell


def connections(wanted: int) -> tuple[int, int]:
    """How many connections to serve, and how many may wait to be taken.

    Raises the process's own limit as far as the system lets it.

    Args:
        wanted: connections.

    Raises:
        InputError: where there is room for none.
    """
    others = _open_already() + _OTHER_FILES + SPARE_CONNECTIONS
    free = _raise_limit(others + wanted + _LONGEST_BACKLOG) - others
    if free >= wanted + _LONGEST_BACKLOG:
        return wanted, _LONGEST_BACKLOG
    backlog = max(1, min(_SHORT_BACKLOG, free // 4))
    if free - backlog < 1:
        raise InputError(
            "this process may open too few files to serve anybody; raise the limit "
            "with ulimit -n 4096"
        )
    return min(wanted, free - backlog), backlog


def _raise_limit(wanted: int) -> int:
    """How many files the process may open, at least `wanted` if that can be had."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return wanted
    limit, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if limit == resource.RLIM_INFINITY or limit >= wanted:
        return wanted
    target = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (target, most))
    except (OSError, ValueError):
        return limit
    return target


def _open_already() -> int:
    try:
        return len(os.listdir("/proc/self/fd"))
    except OSError:
        return _OPEN_ALREADY
