"""The process that a framework works in: a fork of it has none of its threads."""

import os

import keras

_worker = None  # the id of the process that has worked


def check():
    """Raises a RuntimeError in a fork of a process that has worked.

    What the framework gives to threads that are not there is never done: the fork would
    wait for ever.
    """
    if _worker not in (None, os.getpid()):
        name = keras.backend.backend()
        raise RuntimeError(
            f"this process was forked from one in which the backend {name} had worked "
            f"already, and has none of its threads: it would wait for ever. Start "
            f'processes with multiprocessing.get_context("spawn"), or fork before the '
            f"first model is made and load one in each process"
        )


def note():
    """Says that this process works; raises what `check` does."""
    global _worker
    check()
    _worker = os.getpid()
