"""Garbage-collector settings for commands.

Imports and traces make a million objects that stay. To look among them at every 700th,
and at the end of the process, takes a fifth of the time that one sentence needs.
"""

import contextlib
import gc
from collections.abc import Iterator


def seek_seldom(backend: str) -> None:
    """At every 100 000th object, in this process.

    PyTorch works step by step, and its `pytree` leaves cycles that hold tensors in
    each: there everything stays as it is.
    """
    if backend != "torch":
        gc.set_threshold(100_000)


@contextlib.contextmanager
def left_at_the_end() -> Iterator[None]:
    """The interpreter, when it ends, does not look through what there is now."""
    try:
        yield
    finally:
        gc.freeze()
