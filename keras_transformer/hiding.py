"""Keeps an installed package from being loaded where it is not needed."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def hidden(package: str) -> Iterator[None]:
    """In the block, a package that is not loaded yet cannot be imported."""
    if package in sys.modules:
        yield
        return
    modules: dict[str, Any] = sys.modules
    modules[package] = None
    try:
        yield
    finally:
        del sys.modules[package]
