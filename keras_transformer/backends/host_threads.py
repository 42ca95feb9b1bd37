"""Numbers of threads of a backend's programs."""

from __future__ import annotations

import os

from keras_transformer.processors import num_processors


def num_threads() -> int:
    """The number of CPUs of this process, at most OMP_NUM_THREADS, as in workers."""
    count = num_processors()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wanted)) if wanted.isdigit() and int(wanted) else count
