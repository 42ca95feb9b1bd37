"""Backend of a command, Keras' own choice, and settings of its process."""

import contextlib
import gc
import importlib.util
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

from keras_transformer.cli import allocator
from keras_transformer.errors import InputError

BACKENDS = ("tensorflow", "jax", "torch")


def activate(*, training: bool = False) -> None:
    """Chooses the backend for this process, before Keras loads, and says which.

    `KERAS_BACKEND` and `keras.json` decide, as in every Keras program, else the first
    of TensorFlow, JAX and PyTorch that is installed. Unless `TF_CPP_MIN_LOG_LEVEL` is
    set, TensorFlow's C++ log is asked for errors alone (2.21 prints some lines before
    it looks). JAX keeps what it compiles. Training has another memory allocator.

    Raises:
        InputError: where no backend is installed, or not the one that is asked for.
    """
    name = _choose()
    os.environ["KERAS_BACKEND"] = name
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
    if name == "jax":
        _keep_programs()
    _seek_garbage_seldom(name)
    if training:
        allocator.tune()
    print(f"backend: {name}", file=sys.stderr, flush=True)


def _choose() -> str:
    wanted = os.environ.get("KERAS_BACKEND")
    if wanted and wanted not in BACKENDS:
        raise InputError(
            f"KERAS_BACKEND is {wanted!r}; set it to one of {', '.join(BACKENDS)}"
        )
    if wanted and not _is_installed(wanted):
        raise InputError(
            f"KERAS_BACKEND is {wanted!r}, but that is not installed; run "
            f"pip install {wanted}, or unset KERAS_BACKEND"
        )
    wanted = wanted or _configured()
    if wanted in BACKENDS and _is_installed(wanted):
        return wanted
    for name in BACKENDS:
        if _is_installed(name):
            print(f"{wanted} is not available; {name} is used instead", file=sys.stderr)
            return name
    raise InputError(
        "no backend is installed; run pip install tensorflow, or jax, or torch"
    )


def _keep_programs() -> None:
    """In the user's cache folder, if JAX has not been told of another one."""
    cache = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache"))
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", f"{cache}/keras-transformer/jax")
    # Those of a search take less than the second from which on JAX keeps them.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _configured() -> str:
    """What Keras takes where `KERAS_BACKEND` is not set."""
    home = Path.home() if os.access(Path.home(), os.W_OK) else Path("/tmp")
    folder = Path(os.environ.get("KERAS_HOME", home / ".keras"))
    try:
        return json.loads((folder / "keras.json").read_bytes())["backend"]
    except (OSError, ValueError, LookupError, TypeError):
        return "tensorflow"


def _seek_garbage_seldom(backend: str) -> None:
    """Collects garbage at every 100 000th object, in this process.

    Imports and traces make a million objects that stay. To look among them at every
    700th, and at the end, takes a fifth of the time that one sentence needs.

    PyTorch works step by step, and its `pytree` leaves cycles that hold tensors in
    each: there everything stays as it is.
    """
    if backend != "torch":
        gc.set_threshold(100_000)


@contextlib.contextmanager
def garbage_left_at_the_end() -> Iterator[None]:
    """The interpreter, when it ends, does not look through what there is now."""
    try:
        yield
    finally:
        gc.freeze()
