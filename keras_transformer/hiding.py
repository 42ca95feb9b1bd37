"""Keeps an installed package from being loaded where it is not needed."""

import contextlib
import sys
from collections.abc import Iterator


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """In the block, a package that is not loaded yet cannot be imported."""
    if package in sys.modules:
        yield
        return
    sys.modules[package] = None
    try:
        yield
    finally:
        del sys.modules[package]
