"""Removal of a file, a link or a folder."""

import contextlib
import shutil
from pathlib import Path


def remove(path: Path) -> None:
    """Removes a file, a link or a whole folder; ignores errors."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
