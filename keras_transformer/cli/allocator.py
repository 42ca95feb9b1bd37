"""A faster memory allocator for training on Linux.

Every training step frees buffers of many megabytes and asks for them again. By default
glibc gives such a buffer back to the kernel at once, and each step pays hundreds of
thousands of page faults to get it back. These settings of glibc keep the memory:

* PyTorch: `MALLOC_MMAP_THRESHOLD_` and `MALLOC_TRIM_THRESHOLD_` of 8 GiB; nearly half
  as many tokens a second again.
* JAX: `GLIBC_TUNABLES=glibc.malloc.hugetlb=1`, large pages; up to 1.6 times as many.
* TensorFlow has an allocator of its own and gains nothing.

glibc reads them when a process starts, so `train` starts itself once more, with the
same arguments and process id. A variable that is set already is left as it is;
`KERAS_TRANSFORMER_RESTART=never` leaves all of them.
"""

import os
import platform
import sys

#: `allowed` by the program's entry, so that nothing else is ever restarted.
RESTART = "KERAS_TRANSFORMER_RESTART"

_EIGHT_GIB = str(8 * 2**30)
SETTINGS = {
    "torch": {
        "MALLOC_MMAP_THRESHOLD_": _EIGHT_GIB,
        "MALLOC_TRIM_THRESHOLD_": _EIGHT_GIB,
    },
    "jax": {"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"},
}


def tune(backend: str) -> None:
    """Starts this process again with the backend's settings, once, if it may."""
    settings = SETTINGS.get(backend, {})
    missing = {key: value for key, value in settings.items() if key not in os.environ}
    if (
        not missing
        or os.environ.get(RESTART) != "allowed"
        or platform.libc_ver()[0] != "glibc"
    ):
        return
    sys.stderr.flush()
    os.execve(
        sys.executable,
        [sys.executable, *sys.orig_argv[1:]],
        {**os.environ, **missing, RESTART: "done"},
    )
