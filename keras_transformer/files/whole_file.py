"""A file that is written whole or not at all."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def new_file(path: Path) -> Iterator[Path]:
    """A temporary path that gets the name `path` when the block ends well.

    Raises:
        OSError: where it cannot be renamed. An existing file is kept.
    """
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    try:
        yield temporary
        temporary.replace(path)
    finally:
        with contextlib.suppress(OSError):  # it was renamed, or never created
            temporary.unlink()


def left_behind(folder: Path, name: str = "*") -> Iterator[Path]:
    """Temporary files that killed processes left beside `path` in `new_file`."""
    return folder.glob(f"{name}.[0-9]*.tmp")


def write_whole(path: Path, content: bytes | memoryview) -> None:
    """Writes a file; `OSError` where it cannot be written, and the old file is kept."""
    with new_file(path) as temporary:
        temporary.write_bytes(content)
