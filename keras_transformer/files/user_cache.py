"""Folder of this package in the user's cache."""

import os
from pathlib import Path


def cache_folder() -> Path:
    """The folder of this package in the user's cache, which `XDG_CACHE_HOME` moves."""
    home = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    return home / "keras-transformer"
