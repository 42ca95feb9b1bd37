"""The lines of a file that is open, as bytes, one after the other."""

from __future__ import annotations

import io
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import BinaryIO

from keras_transformer.data.line_faults import BEGINNING
from keras_transformer.data.line_faults import LONGEST_LINE
from keras_transformer.data.line_faults import check_encoding
from keras_transformer.data.line_faults import too_long
from keras_transformer.data.unpacking import explained
from keras_transformer.data.unpacking import unpacked


def file_lines(file: BinaryIO, name: Path | str) -> Iterator[bytes]:
    r"""The lines, each with its `\n`; unpacked, where the file is packed.

    Args:
        file: at its beginning.
        name: of the file, for messages.

    Raises:
        InputError: where it is cut off, damaged or UTF-16, or a line is too long to be
            one; before it is in memory.
    """
    file = file if hasattr(file, "peek") else io.BufferedReader(file)
    with explained(name):
        file = unpacked(file)
        check_encoding(name, file.peek(BEGINNING)[:BEGINNING])
        for number in count(1):
            line = file.readline(LONGEST_LINE + 1)
            if len(line) > LONGEST_LINE:
                raise too_long(name, number)
            if not line:
                return
            yield line
