"""Files of a folder from an untrusted source, checked before they are read."""

import errno
import os
from pathlib import Path

from keras_transformer.errors import InputError

#: The largest size of any file but the weights, in bytes.
MOST_BYTES = 64 * 2**20
#: The largest config: parsed JSON and YAML take up to a hundred times their size.
MOST_CONFIG_BYTES = 2**20


def plain_file(folder: Path, name: str, most_bytes: float = float("inf")) -> Path:
    """The path of a regular file that lies in the folder.

    A missing file is reported by its reader.

    Args:
        folder: where it must lie.
        name: the name of the file.
        most_bytes: its largest allowed size.

    Raises:
        InputError: where it is not a regular file of the folder, or is larger.
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
            f"{path} is not a regular file of this folder, or is too large; copy the "
            "folder again, without links to other places"
        )
    return path


def data_bytes(path: Path) -> int:
    """The bytes of a file that hold data, without the holes of a sparse file.

    Its size where the system cannot tell. `OSError` where there is no file.
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
            return total if error.errno == errno.ENXIO else size  # only a hole follows
    return total
