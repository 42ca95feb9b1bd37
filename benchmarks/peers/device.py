"""The device that a program works on, whichever framework it has loaded."""

import contextlib
import sys


def torch_device():
    """`"cuda"` where there is one, else `"cpu"`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def peak_memory():
    """The most bytes that this process has held: on the GPU, else of the host."""
    if _torch_on_gpu():
        return sys.modules["torch"].cuda.max_memory_allocated()
    if "jax" in sys.modules:
        statistics = sys.modules["jax"].local_devices()[0].memory_stats()
        if statistics:
            return statistics["peak_bytes_in_use"]
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return 0


def free_memory():
    """Gives back what PyTorch keeps for later, so that the next program finds room."""
    if _torch_on_gpu():
        sys.modules["torch"].cuda.empty_cache()


def _torch_on_gpu():
    torch = sys.modules.get("torch")
    return torch is not None and torch.cuda.is_initialized()
