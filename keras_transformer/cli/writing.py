"""Text out: UTF-8 whatever the locale, a file whole or not at all."""

import contextlib
import os
import sys
from collections.abc import Callable
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from keras_transformer.errors import InputError


@contextlib.contextmanager
def writer(path: Path | None) -> Iterator[Callable[[str | bytes], None]]:
    """A function that writes text, or bytes, to a file or to standard output.

    A file has a temporary name until all is written; what is no file (a device, a
    named pipe) is written to as it is.

    Raises:
        InputError: where it cannot be written.
    """
    if path is None:
        yield partial(_write, "standard output", sys.stdout and sys.stdout.buffer)
        return
    with _told(path):
        in_place = path.exists() and not path.is_file()
        # Not `path.resolve()`, which gives up on a loop of links.
        target = path if in_place else Path(os.path.realpath(path))
        temporary = target
        if not in_place:
            temporary = target.with_name(f"{target.name}.{os.getpid()}.tmp")
        file = temporary.open("wb")
    try:
        yield partial(_write, path, file)
        with _told(path):
            file.close()
            if not in_place:
                temporary.replace(target)
    finally:
        with contextlib.suppress(OSError):  # what is left in its buffer
            file.close()
        if not in_place:
            temporary.unlink(missing_ok=True)


def _write(name: Path | str, file: BinaryIO | None, text: str | bytes) -> None:
    if file is None:
        raise InputError(f"there is no {name}; give --output")
    with _told(name):
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()


@contextlib.contextmanager
def _told(name: Path | str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise InputError(
            f"cannot write {name}: {error.strerror}; free the way or write elsewhere"
        ) from None
