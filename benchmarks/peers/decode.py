"""One program of `decoding_speed.py` or `gpu/decoding.py`.

Prepares, then translates whenever it is told to: batches of a size, by a beam.

python -m peers.decode NAME OPTIONS_AS_JSON, in the folder of benchmarks
"""

import importlib
import json
import sys
import time
from pathlib import Path

from turns import serve

from peers.batches import LENGTH
from peers.batches import by_length
from peers.batches import sources
from peers.device import free_memory


def main():
    name, options = sys.argv[1], json.loads(sys.argv[2])
    seconds, path = options.pop("seconds"), options.pop("sentences", None)
    most = options.pop("most_batches", None)
    sentences = path and json.loads(Path(path).read_text(encoding="utf-8"))
    if options.pop("one_length", False):
        sentences = [ids for ids in sentences if LENGTH // 2 < len(ids) <= LENGTH]
    # `decode(rows, length, beam_size)` returns the ids of each translation.
    decode = importlib.import_module(f"peers.{name}").decoder(**options)
    ready = set()

    def once(batches, beam_size):
        """The first translations, and how many tokens there were."""
        first, tokens = None, 0
        for rows, length in batches:
            found = decode(rows, length, beam_size)
            lengths = list(map(len, found))
            if lengths != [length] * len(rows):
                raise ValueError(f"{len(rows)} x {length} tokens, not {lengths}")
            first = found if first is None else first
            tokens += length * len(rows)
        return first, tokens

    def work(job):
        batch, beam_size = job["batch"], job["beam_size"]
        if sentences:
            batches = by_length(sentences, batch, most)
        else:
            batches = [(sources(options["vocabulary_size"], batch), LENGTH)]
        if (batch, beam_size) not in ready:
            for _ in range(2):  # the first compiles
                once(batches, beam_size)
            ready.add((batch, beam_size))
        if job.get("prepare"):
            return {}
        total, start = 0, time.perf_counter()
        while not total or time.perf_counter() - start < seconds:
            found, tokens = once(batches, beam_size)
            total += tokens
        taken = time.perf_counter() - start
        free_memory()
        return {
            "tokens_per_second": total / taken,
            "sentences": sum(len(rows) for rows, _ in batches),
            "tokens": tokens,
            "ids": [[int(token) for token in ids] for ids in found],
        }

    serve(work)


if __name__ == "__main__":
    main()
