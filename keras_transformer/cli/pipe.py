"""Lines of a pipe or a terminal, and whether the next one has come."""

import io
import os
import stat
from collections.abc import Callable
from collections.abc import Iterable
from pathlib import Path
from typing import BinaryIO

from keras_transformer.cli.arrivals import Arrivals
from keras_transformer.cli.reading import STANDARD_INPUT
from keras_transformer.data.file_lines import file_lines


def lines(
    file: BinaryIO, path: Path | None
) -> tuple[Iterable[bytes], Callable[[float], bool]]:
    """The lines of a file, and a function that says whether the next one is there.

    It waits for it, or for the end, until a time of `time.monotonic`. Of a plain file
    the next line always is there.

    Args:
        file: at its beginning.
        path: of the file, for messages; None for standard input.
    """
    name = path or STANDARD_INPUT
    if not _comes_slowly(file):
        return file_lines(file, name), lambda until: True
    arrivals = Arrivals(file.fileno(), name)
    return arrivals, arrivals.ready


def _comes_slowly(file: BinaryIO) -> bool:
    try:
        mode = os.fstat(file.fileno()).st_mode
    except io.UnsupportedOperation:  # a file in memory
        return False
    if os.name == "nt":  # can wait for sockets alone
        return stat.S_ISSOCK(mode)
    return stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode) or file.isatty()
