"""Guard against forks of a process in which a framework has started threads."""

from __future__ import annotations

import os

import keras

_worker = None  # the id of the process in which the backend has run


def check() -> None:
    """Raises a RuntimeError in a fork of a process in which the backend has run.

    The framework's threads do not exist in the fork, so that it would wait for ever.
    """
    if _worker not in (None, os.getpid()):
        name = keras.backend.backend()
        raise RuntimeError(
            f"this process was forked after the backend {name} had started threads, "
            "which a fork lacks: it would wait for ever. Start processes with "
            'multiprocessing.get_context("spawn"), or fork before the first model '
            "is created and load one in each process"
        )


def note() -> None:
    """Records that the backend runs in this process; raises as `check` does."""
    global _worker
    check()
    _worker = os.getpid()
