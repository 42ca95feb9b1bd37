"""Keeps installed packages from being loaded where they are not needed."""

import contextlib
import sys
from collections.abc import Iterator
from typing import Any


@contextlib.contextmanager
def hidden(*packages: str) -> Iterator[None]:
    """In the block, packages that are not loaded yet cannot be imported."""
    modules: dict[str, Any] = sys.modules
    missing = [package for package in packages if package not in modules]
    modules.update(dict.fromkeys(missing))
    try:
        yield
    finally:
        for package in missing:
            del modules[package]
