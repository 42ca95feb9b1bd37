"""A line for people who wait, where something takes long."""

import contextlib
import threading
from collections.abc import Callable
from collections.abc import Iterator


@contextlib.contextmanager
def waiting(
    text: str, say: Callable[[str], None], seconds: float = 2.0
) -> Iterator[None]:
    """In the block, says once what is under way, if that takes longer.

    Args:
        text: what is under way.
        say: a function that receives the line, in another thread.
        seconds: the time after which it comes.
    """
    timer = threading.Timer(seconds, say, [f"{text} ..."])
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        timer.join()  # no line comes after the block
