"""Backend of a command, as Keras chooses it, and settings of the process."""

import contextlib
import gc
import importlib.util
import json
import os
import shlex
import sys
from collections.abc import Iterator
from collections.abc import Sequence
from pathlib import Path

from keras_transformer.cli import allocator
from keras_transformer.cli import quiet
from keras_transformer.errors import InputError
from keras_transformer.files.user_cache import cache_folder
from keras_transformer.hiding import hidden
from keras_transformer.user_modules import import_module

BACKENDS = ("tensorflow", "jax", "torch")

_TRITON = "xla_gpu_enable_triton_gemm"


def activate(*, training: bool = False, imports: Sequence[str] = ()) -> None:
    """Chooses the backend of this process before Keras loads, and prints it.

    `KERAS_BACKEND` and `keras.json` decide, as in every Keras program; otherwise the
    first of TensorFlow, JAX and PyTorch that is installed. TensorFlow's C++ log shows
    errors only, unless `TF_CPP_MIN_LOG_LEVEL` is set. JAX and PyTorch cache compiled
    programs on disk. Training uses another memory allocator, and JAX on a GPU no matrix
    products but those of cuBLAS.

    Args:
        training: whether the command trains.
        imports: the modules of `--import`, which are imported then.

    Raises:
        InputError: where no backend is installed, or not the requested one, or a module
            cannot be imported.
    """
    name = _choose()
    os.environ["KERAS_BACKEND"] = name
    quiet.quieten_tensorflow()
    _keep_programs(name)
    _seek_garbage_seldom(name)
    if training:
        allocator.tune()
        _choose_products(name)
    print(f"backend: {name}", file=sys.stderr, flush=True)
    for module in imports:
        import_module(module, "--import")


def load_keras() -> None:
    """Imports Keras without packages that it imports for what no command uses.

    Where they are installed, Keras imports matplotlib (for galleries of images), pandas
    (for data frames), IPython (for notebooks) and, on another backend, JAX (for Orbax).
    Without these it takes two thirds of the time. All can be imported afterwards.
    """
    other = () if os.environ["KERAS_BACKEND"] == "jax" else ("jax",)
    with hidden("matplotlib", "pandas", "IPython", *other):
        import keras  # noqa: F401


def _choose() -> str:
    choice = os.environ.get("KERAS_BACKEND")
    if choice and choice not in BACKENDS:
        raise InputError(
            f"KERAS_BACKEND is {choice!r}; set it to one of {', '.join(BACKENDS)}"
        )
    if choice and not _is_installed(choice):
        raise InputError(
            f"KERAS_BACKEND is {choice!r}, which is not installed; run "
            f"pip install {choice}, or unset KERAS_BACKEND"
        )
    choice = choice or _configured()
    if choice in BACKENDS and _is_installed(choice):
        return choice
    for name in BACKENDS:
        if _is_installed(name):
            print(f"{choice} is not available; {name} is used instead", file=sys.stderr)
            return name
    raise InputError(
        "no backend is installed; run pip install tensorflow, or jax, or torch"
    )


def _keep_programs(name: str) -> None:
    """Caches compiled programs in the user's cache folder, unless one is set."""
    if name == "torch":  # of `torch.compile`; by default in a temporary folder
        folder = str(cache_folder() / "inductor")
        os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", folder)
    if name != "jax":
        return
    os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(cache_folder() / "jax"))
    # JAX keeps programs that took a second to compile; those of a search take less.
    os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")


def _choose_products(name: str) -> None:
    """Has XLA take the products of a GPU from cuBLAS alone, unless a flag says more.

    It would try kernels of its own (Triton) against them. On an H200, a step of `base`
    takes 35.2 ms with these and 32.8 without, and the first step 49 s and 31 s.
    """
    flags = os.environ.get("XLA_FLAGS", "")
    on_gpu = any(map(_is_installed, ("jax_cuda12_plugin", "jax_cuda13_plugin")))
    if name == "jax" and on_gpu and _TRITON not in flags:
        os.environ["XLA_FLAGS"] = f"{flags} --{_TRITON}=false".strip()


def program_folder() -> str | None:
    """Where the backend, once activated, keeps compiled programs; None: nowhere."""
    if os.environ["KERAS_BACKEND"] == "jax":
        return os.environ.get("JAX_COMPILATION_CACHE_DIR") or None
    if os.environ["KERAS_BACKEND"] == "tensorflow":
        for flag in shlex.split(os.environ.get("TF_XLA_FLAGS", "")):
            name, _, value = flag.partition("=")
            if name.lstrip("-") == "tf_xla_persistent_cache_directory" and value:
                return value
    return None


def _is_installed(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _configured() -> str:
    """The backend that Keras uses where `KERAS_BACKEND` is not set."""
    home = Path.home() if os.access(Path.home(), os.W_OK) else Path("/tmp")
    folder = Path(os.environ.get("KERAS_HOME", home / ".keras"))
    try:
        return json.loads((folder / "keras.json").read_bytes())["backend"]
    except (OSError, ValueError, LookupError, TypeError):
        return "tensorflow"


def _seek_garbage_seldom(backend: str) -> None:
    """Runs the garbage collector at every 100 000th object in this process.

    Imports and traces make a million objects that stay. Searching them at every 700th
    object and at exit takes a fifth of the time of one sentence.

    PyTorch keeps the default: each of its eager steps leaves reference cycles that hold
    tensors (`pytree`).
    """
    if backend != "torch":
        gc.set_threshold(100_000)


@contextlib.contextmanager
def garbage_left_at_the_end() -> Iterator[None]:
    """Keeps the interpreter from searching today's objects for garbage at exit."""
    try:
        yield
    finally:
        gc.freeze()
