"""The environment of each program, and which programs this machine can run."""

import importlib.util
import os
from pathlib import Path

JAX = {
    "KERAS_BACKEND": "jax",
    # The programs share the card: none takes most of its memory at the start.
    "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
}
#: As `keras-transformer train` has it, see `cli/backend.py`; for everybody.
JAX_TRAINING = {**JAX, "XLA_FLAGS": "--xla_gpu_enable_triton_gemm=false"}
TORCH = {"KERAS_BACKEND": "torch"}
TENSORFLOW = {"KERAS_BACKEND": "tensorflow", "TF_FORCE_GPU_ALLOW_GROWTH": "true"}
#: Trainings of this package alone, on each backend: `{name: environment}`.
OURS = {"ours, JAX": JAX_TRAINING, "ours, PyTorch": TORCH}


#: With fewer minutes a program has fewer shapes, settings and rounds.
_SHORT = 6
#: Processors that a program needs to prepare nearly at its own pace.
_PROCESSORS = 2


def is_short(minutes):
    """Whether there is time only for a small table, as in `--minutes 4`."""
    return minutes < _SHORT


def at_once():
    """How many programs prepare side by side."""
    return max(1, (os.cpu_count() or 1) // _PROCESSORS)


def missing(modules):
    """Why a program that needs these modules cannot run; None where it can."""
    absent = [module for module in modules if not installed(module)]
    return f"{', '.join(absent)} not installed" if absent else None


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
