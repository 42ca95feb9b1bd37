"""Numbers of threads that the programs of a backend take."""

import os

from keras_transformer.processors import num_processors


def num_threads():
    """The processors of this process; no more than OMP_NUM_THREADS, as in workers."""
    count = num_processors()
    wanted = os.environ.get("OMP_NUM_THREADS", "")
    return min(count, int(wanted)) if wanted.isdigit() and int(wanted) else count
