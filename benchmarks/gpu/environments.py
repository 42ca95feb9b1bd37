"""The environment of each program, and which programs this machine can run."""

import importlib.util
import os
from pathlib import Path

JAX = {
    "KERAS_BACKEND": "jax",
    # The programs share the card: none takes most of its memory at the start.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
TORCH = {"KERAS_BACKEND": "torch"}
#: This package alone, on each backend: `{name: environment}`.
OURS = {"ours, JAX": JAX, "ours, PyTorch": TORCH}


def installed(*modules):
    """Whether all of them are."""
    return all(importlib.util.find_spec(module) for module in modules)


def backend():
    """The one that is set, else the first that is installed."""
    found = os.environ.get("KERAS_BACKEND")
    return found or next(name for name in ("jax", "torch") if installed(name))


def on_host():
    """Of a process of Keras that leaves the GPU alone."""
    return {
        **os.environ,
        "KERAS_BACKEND": backend(),
        "JAX_PLATFORMS": "cpu",
        "CUDA_VISIBLE_DEVICES": "",
    }


def caches(folder):
    """Where compilers keep what they have made, for the next run; {} without one."""
    if folder is None:
        return {}
    folder = Path(folder).resolve()
    return {
        "JAX_COMPILATION_CACHE_DIR": str(folder / "jax"),
        "JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1",
        "TORCHINDUCTOR_CACHE_DIR": str(folder / "inductor"),
        "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
        "TRITON_CACHE_DIR": str(folder / "triton"),
    }
