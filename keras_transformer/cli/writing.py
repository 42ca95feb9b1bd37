"""Output of text: UTF-8 in every locale; a file is written whole or not at all."""

import contextlib
import os
import signal
import sys
from collections.abc import Callable
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO

from keras_transformer.control_characters import escaped
from keras_transformer.errors import InputError
from keras_transformer.files.whole_file import new_file


@contextlib.contextmanager
def writer(path: Path | None) -> Iterator[Callable[[str | bytes], None]]:
    """A function that writes text, or bytes, to a file or to standard output.

    A file has a temporary name until it is complete; a device or a named pipe is
    written to directly. On a terminal, control characters are escaped.

    Raises:
        InputError: where the output cannot be written.
    """
    if path is None:
        output = None if sys.stdout is None else sys.stdout.buffer
        write = partial(_write, "standard output", output)

        def write_escaped(text: str | bytes) -> None:
            write(escaped(text) if isinstance(text, str) else text)

        is_terminal = sys.stdout is not None and sys.stdout.isatty()
        yield write_escaped if is_terminal else write
        return
    with contextlib.ExitStack() as stack:
        with _reported(path):
            if path.exists() and not path.is_file():
                target = path
            else:
                # Not `path.resolve()`, which gives up on a loop of links.
                whole = new_file(Path(os.path.realpath(path)))
                target = stack.enter_context(whole)
            file = target.open("wb")
        try:
            yield partial(_write, path, file)
            with _reported(path):
                file.close()
                stack.close()
        finally:
            with contextlib.suppress(OSError):  # flushing its buffer may fail
                file.close()


def _write(name: Path | str, file: BinaryIO | None, text: str | bytes) -> None:
    if file is None:
        raise InputError(f"{name} is closed; give --output")
    with _reported(name):
        file.write(text.encode() if isinstance(text, str) else text)
        file.flush()


@contextlib.contextmanager
def _reported(name: Path | str) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:  # its reader, such as `head`, has all that it wanted
        sys.exit(128 + signal.SIGPIPE)
    except OSError as error:
        raise InputError(
            f"cannot write {name}: {error.strerror}; check its permissions, or write "
            "elsewhere"
        ) from None
