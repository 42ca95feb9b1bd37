"""One program of `decoding_speed.py`: prepares, then translates whenever it is told to.

python -m peers.decode NAME OPTIONS_AS_JSON, in the folder of benchmarks
"""

import importlib
import json
import sys
import time

from turns import serve

from peers.batches import LENGTH
from peers.batches import sources


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    seconds, batch = options.pop("seconds"), options.pop("batch")
    rows = sources(options["vocabulary_size"], batch)
    # `decode()` returns the ids of each translation.
    decode = importlib.import_module(f"peers.{name}").decoder(rows, **options)
    for _ in range(2):  # the first compiles
        decode()

    def work():
        calls, start = 0, time.perf_counter()
        while not calls or time.perf_counter() - start < seconds:
            found = decode()
            calls += 1
        taken = time.perf_counter() - start
        found = [[int(token) for token in ids] for ids in found]
        lengths = list(map(len, found))
        if lengths != [LENGTH] * batch:
            raise ValueError(f"{batch} sentences of {LENGTH} tokens, not {lengths}")
        return {"tokens_per_second": calls * batch * LENGTH / taken, "ids": found}

    serve(work)


if __name__ == "__main__":
    main()
