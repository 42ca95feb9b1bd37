"""The device that a program works on, whichever framework it has loaded."""

import contextlib
import shutil
import sys

from turns import refuse


def torch_device():
    """`"cuda"` where there is one, else `"cpu"`."""
    import torch

    return "cuda" if torch.cuda.is_available() else "cpu"


def refuse_processor():
    """Ends a program of Keras whose backend does not see the machine's card."""
    import keras

    name = keras.backend.backend()
    if shutil.which("nvidia-smi") and not _SEES_CARD[name]():
        refuse(f"{name} sees no GPU")


def _tensorflow_sees_card():
    import tensorflow

    return bool(tensorflow.config.list_physical_devices("GPU"))


def _jax_sees_card():
    import jax

    return jax.default_backend() == "gpu"


_SEES_CARD = {
    "tensorflow": _tensorflow_sees_card,
    "jax": _jax_sees_card,
    "torch": lambda: torch_device() == "cuda",
}


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
