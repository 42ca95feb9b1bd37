"""Limits of open connections: each is an open file of the process."""

import os

from keras_transformer.errors import InputError
from keras_transformer.serving.protocol import SPARE_CONNECTIONS

_LONGEST_BACKLOG = 1024  # backlog of connections, accepted at once
_SHORT_BACKLOG = 64
_OTHER_FILES = 32  # files of the model and the standard library
_OPEN_ALREADY = 128  # where the system does not tell


def connections(wanted: int) -> tuple[int, int]:
    """The number of connections to serve, and of the backlog.

    Raises the limit of the process as far as the system allows.

    Args:
        wanted: connections.

    Raises:
        InputError: where not even one fits.
    """
    others = _open_already() + _OTHER_FILES + SPARE_CONNECTIONS
    free = _raise_limit(others + wanted + _LONGEST_BACKLOG) - others
    if free >= wanted + _LONGEST_BACKLOG:
        return wanted, _LONGEST_BACKLOG
    backlog = max(1, min(_SHORT_BACKLOG, free // 4))
    if free - backlog < 1:
        raise InputError(
            "this process may open too few files to serve a connection; raise the "
            "limit with ulimit -n 4096"
        )
    return min(wanted, free - backlog), backlog


def _raise_limit(wanted: int) -> int:
    """The number of files the process may open, raised to `wanted` if possible."""
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
