"""Files of a folder that may come from anybody."""

import errno
import os
from pathlib import Path

from keras_transformer.errors import InputError

#: Of any file but the weights.
MOST_BYTES = 64 * 2**20
#: Of a config: parsed, JSON and YAML take up to a hundred times their size.
MOST_CONFIG_BYTES = 2**20


def plain_file(folder: Path, name: str, most_bytes: float = float("inf")) -> Path:
    """The path of a file, unless it is something else or leads out of the folder.

    A missing one is left to its reader.

    Args:
        folder: where it must lie.
        name: of the file.
        most_bytes: that it may have.

    Raises:
        InputError: where it is no plain file of the folder, or larger.
    """
    path = folder / name
    try:
        if not path.is_symlink() and not path.exists():
            return path
        real = path.resolve(strict=True)
        is_inside = real.is_relative_to(folder.resolve())
        size = real.stat().st_size if real.is_file() else None
    except (OSError, RuntimeError):  # a loop of links
        is_inside, size = False, None
    if not is_inside or size is None or size > most_bytes:
        raise InputError(
            f"{path} is not a plain file of this folder, or is too large; copy the "
            f"folder again, without links to elsewhere"
        )
    return path


def data_bytes(path: Path) -> int:
    """How much a file holds, without the holes that only its size counts.

    Where the system does not tell, it is the size. `OSError` where there is no file.
    """
    size = path.stat().st_size
    if not hasattr(os, "SEEK_DATA"):
        return size
    total = end = 0
    with path.open("rb") as file:
        try:
            while end < size:
                start = file.seek(end, os.SEEK_DATA)
                end = file.seek(start, os.SEEK_HOLE)
                total += end - start
        except OSError as error:
            return total if error.errno == errno.ENXIO else size  # a hole to the end
    return total
