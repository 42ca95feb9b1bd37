"""Exit codes of commands, and the one-line error message of a failure.

0 success; 2 bad input or arguments; 1 an internal error; 130 ctrl-C; 143 SIGTERM; 129 a
training whose terminal closed; 141, without a message, a command whose output nobody
reads any more, as in `keras-transformer info MODEL | head -1`.
"""

import contextlib
import errno
import os
import signal
import sys
import traceback
from collections.abc import Iterator

from keras_transformer.control_characters import escaped
from keras_transformer.errors import InputError
from keras_transformer.errors import out_of_memory

#: File errors that a user can fix; any other error is ours.
MENDABLE = {
    *(errno.EACCES, errno.EDQUOT, errno.EFBIG, errno.EISDIR, errno.ENAMETOOLONG),
    *(errno.ENOSPC, errno.ENOTDIR, errno.EPERM, errno.EPIPE, errno.EROFS),
}


@contextlib.contextmanager
def reported() -> Iterator[None]:
    """Turns exceptions into exit codes, and SIGTERM into a clean exit."""
    handler = signal.signal(signal.SIGTERM, _terminate)
    try:
        try:
            yield
        except SystemExit as end:  # how typer ends
            if end.code == 128 + signal.SIGPIPE:
                _discard_output()
            elif sys.stdout is not None:
                sys.stdout.flush()
            raise
    except InputError as error:
        _exit(2, str(error))
    except KeyboardInterrupt:
        _exit(130, "interrupted")
    except OSError as error:
        if error.errno not in MENDABLE:
            _exit_as_fault()
        name = "" if error.filename is None else f" {error.filename}"
        _exit(2, f"cannot write or read{name}: {error.strerror}")
    except Exception as error:
        if message := out_of_memory(error):
            _exit(2, message)
        _exit_as_fault()
    finally:
        signal.signal(signal.SIGTERM, handler)


def _terminate(number: int, frame: object) -> None:
    sys.exit(128 + number)


def _exit(code: int, message: str) -> None:
    _discard_output()
    with contextlib.suppress(OSError):
        line = escaped(" ".join(message.splitlines()))
        print("error:", line, file=sys.stderr, flush=True)
    sys.exit(code)


def _exit_as_fault() -> None:
    traceback.print_exc()
    _exit(1, "this is a bug in keras-transformer; please report the lines above")


def _discard_output() -> None:
    """Flushes standard output, or drops what cannot be written: Python fails at exit
    otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
