"""One program of `training_speed.py` or `gpu/training.py`.

Prepares, then trains whenever it is told to.

python -m peers.train NAME OPTIONS_AS_JSON, in the folder of benchmarks
"""

import importlib
import json
import sys
import time

from turns import serve

from peers.batches import PAD
from peers.batches import batches
from peers.batches import load
from peers.device import free_memory
from peers.device import peak_memory


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    steps, path = options.pop("steps"), options.pop("batches", None)
    data = load(path) if path else batches(options["vocabulary_size"])
    # `train(number of steps)` takes the batches in turn and returns the last loss.
    start = time.perf_counter()
    train = importlib.import_module(f"peers.{name}").trainer(data, **options)
    built = time.perf_counter()
    train(1)
    first_step = time.perf_counter() - built
    train(2 * len(data) - 1)  # every shape is compiled
    prepared = time.perf_counter() - start
    tokens = sum(int((data[i % len(data)][2] != PAD).sum()) for i in range(steps))

    def work(_):
        start = time.perf_counter()
        loss = train(steps)
        seconds = time.perf_counter() - start
        peak = peak_memory()
        free_memory()
        return {
            "tokens_per_second": tokens / seconds,
            "loss": float(loss),
            "first_step_seconds": first_step,
            "preparation_seconds": prepared,
            "peak_bytes": peak,
        }

    serve(work)


if __name__ == "__main__":
    main()
