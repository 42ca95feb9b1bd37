"""Exit codes of commands, and the one-line error message of a failure.

0 success; 2 bad input or arguments, or an error in code of the user's; 1 an internal
error; 130 ctrl-C; 143 SIGTERM; 129 a training whose terminal closed; 141, without a
message, a command whose output nobody reads any more, as in `keras-transformer info
MODEL | head -1`.
"""

import contextlib
import errno
import os
import signal
import sys
import sysconfig
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType

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
    if place := _place_of_user(sys.exc_info()[2]):
        _exit(2, f"the code in {place} failed, as the lines above say; mend it there")
    _exit(1, "this is a bug in keras-transformer; please report the lines above")


def _place_of_user(frames: TracebackType | None) -> str | None:
    """File and line of the user's code in which an error arose, if it did there.

    What libraries do on behalf of somebody is theirs who called them.
    """
    libraries = {Path(sysconfig.get_path(name)) for name in ("stdlib", "purelib")}
    package = Path(__file__).parents[1]
    for frame in reversed(traceback.extract_tb(frames)):
        path = Path(frame.filename)
        if path.is_relative_to(package):
            return None
        is_file = path.suffix == ".py" and path.exists()
        if is_file and not any(path.is_relative_to(folder) for folder in libraries):
            return f"{frame.filename}, line {frame.lineno},"
    return None


def _discard_output() -> None:
    """Flushes standard output, or drops what cannot be written: Python fails at exit
    otherwise."""
    with contextlib.suppress(OSError, AttributeError):
        try:
            sys.stdout.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
