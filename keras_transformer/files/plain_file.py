"""Files of a folder that may come from anybody."""

from pathlib import Path

from keras_transformer.errors import InputError

#: Of any file but the weights.
MOST_BYTES = 64 * 2**20


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
