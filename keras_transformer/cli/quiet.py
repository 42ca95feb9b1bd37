"""TensorFlow's first import without its own log, unless that is asked for.

TensorFlow 2.21 writes C++ log lines before it reads `TF_CPP_MIN_LOG_LEVEL`. They are
held back: what is no such line, and errors, follow the import.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.machinery
import os
import re
import sys
import tempfile
import types
from collections.abc import Iterator
from collections.abc import Sequence

_LEVEL = "TF_CPP_MIN_LOG_LEVEL"
#: What an import logs that concerns nobody: information, warnings about the order of
#: initialization, and that two libraries of CUDA are registered twice.
_IDLE = re.compile(
    rb"[IW]\d{4} [\d:.]+ +\d+ "
    rb"|\d{4}-\d\d-\d\d [\d:.]+: [IW] "
    rb"|WARNING: All log messages before absl::InitializeLog"
    rb"|.*Unable to register \w+ (factory|plugin)"
    rb"|.*computation placer already registered"
    rb"|To enable the following instructions: "
)


def quieten_tensorflow() -> None:
    """Holds back the log of TensorFlow's import, if it is imported in this process.

    `TF_CPP_MIN_LOG_LEVEL=0` or `1` asks for the log.
    """
    asked = os.environ.setdefault(_LEVEL, "2") in ("0", "1")
    is_set = any(isinstance(finder, _Finder) for finder in sys.meta_path)
    if not asked and not is_set and "tensorflow" not in sys.modules:
        sys.meta_path.insert(0, _Finder())


@contextlib.contextmanager
def held_back() -> Iterator[None]:
    """In the block, standard error goes to a file; what matters of it is given back.

    All of it where the block fails.
    """
    sys.stderr.flush()
    try:
        kept = os.dup(2)
    except OSError:  # closed
        yield
        return
    with tempfile.TemporaryFile() as file:
        os.dup2(file.fileno(), 2)
        failed = True
        try:
            yield
            failed = False
        finally:
            sys.stderr.flush()
            os.dup2(kept, 2)
            os.close(kept)
            file.seek(0)
            for line in file:
                if failed or not _is_idle(line):
                    os.write(2, line)


def _is_idle(line: bytes) -> bool:
    """Whether a line concerns nobody; a missing GPU does where there is a driver."""
    if b"failed call to cuInit" in line:
        return not any(map(os.path.exists, ("/dev/nvidiactl", "/dev/dxg")))
    return _IDLE.match(line) is not None


class _Finder(importlib.abc.MetaPathFinder):
    """Finds TensorFlow as the finders after it do, and wraps what loads it."""

    def find_spec(
        self,
        fullname: str,
        path: Sequence[str] | None,
        target: types.ModuleType | None = None,
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != "tensorflow":
            return None
        others = sys.meta_path[sys.meta_path.index(self) + 1 :]
        specs = (other.find_spec(fullname, path, target) for other in others)
        spec = next(filter(None, specs), None)
        if spec is not None and spec.loader is not None:
            load = spec.loader.exec_module

            def load_quietly(module: types.ModuleType) -> None:
                sys.meta_path.remove(self)
                with held_back():
                    load(module)
                    # Looks for devices, of which it also writes.
                    module.config.list_physical_devices()

            vars(spec.loader)["exec_module"] = load_quietly
        return spec
