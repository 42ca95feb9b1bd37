"""One program of `training_speed.py`: prepares, then trains whenever it is told to.

python -m peers.train NAME OPTIONS_AS_JSON, in the folder of benchmarks
"""

import importlib
import json
import sys
import time

from turns import serve

from peers.batches import PAD
from peers.batches import batches


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    steps = options.pop("steps")
    vocabulary_size = options["vocabulary_size"]
    data = batches(vocabulary_size)
    # `train(number of steps)` takes the batches in turn and returns the last loss.
    train = importlib.import_module(f"peers.{name}").trainer(data, **options)
    train(2 * len(data))  # every shape is compiled
    tokens = sum(int((data[i % len(data)][2] != PAD).sum()) for i in range(steps))

    def work():
        start = time.perf_counter()
        loss = train(steps)
        seconds = time.perf_counter() - start
        return {"tokens_per_second": tokens / seconds, "loss": float(loss)}

    serve(work)


if __name__ == "__main__":
    main()
