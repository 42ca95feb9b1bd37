"""What limits training on a GPU: kernels by kind, gaps between them, and the input.

    python -m gpu.profiling [--size base] [--kernels 15] [--minutes 10] [--json FILE]

Run it in the folder of benchmarks. This package trains as in `gpu/training.py`, on each
backend that is installed; one pass over the batches is traced by the framework's own
profiler.

Prints, for each backend, milliseconds a step: of a step without the profiler; of the
device, from its first to its last kernel; of the kernels, by kind and the longest by
name; of the gaps in which no kernel ran, which launches, the host or its input cause;
and of making a batch on the host. Kinds go by the kernels' names (`peers/kernels.py`):
an element-wise kernel that a compiler has made may hold parts of several. A backend
that does not end in the time is named and left out: `--only` takes it alone. With less
than 6 minutes there is one shape of batch.
"""

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from peers.batches import SIZES
from turns import Clock
from turns import chosen

from gpu import processes
from gpu.environments import OURS
from gpu.environments import caches
from gpu.environments import installed
from gpu.environments import is_short
from gpu.report import Machine
from gpu.report import print_table
from gpu.report import write_json
from gpu.training import FULL
from gpu.training import SHORT
from gpu.training import TOY
from gpu.training import cut

_STEPS = 24  # traced; a whole epoch would take long to read


def main():
    arguments = parse()
    clock = Clock(arguments.minutes)
    batches = SHORT if is_short(arguments.minutes) else FULL
    settings = TOY if arguments.size == "toy" else {**batches, "steps": _STEPS}
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        path = str(Path(folder, "batches.npz"))
        cut(path, settings)
        options = {
            "preset": arguments.size,
            "vocabulary_size": settings["vocabulary_size"],
            "bfloat16": not arguments.float32,
            "jit_compile": True,
            "batches": path,
            "most": arguments.kernels,
        }
        machine.print()
        found = {}
        for name in chosen(OURS, arguments.only):
            if installed(OURS[name]["KERAS_BACKEND"]):
                environment = OURS[name] | caches(arguments.cache)
                try:
                    found[name] = traced(options, environment, clock.left())
                    report(name, found[name])
                except subprocess.SubprocessError:
                    print(f"{name}: did not end, left out", file=sys.stderr)
    machine.print_load()
    head = {"benchmark": "profiling", "settings": options, "machine": machine.facts}
    write_json(arguments.json, {**head, "milliseconds": found})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--kernels", type=int, default=15, help="named, the longest")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all of it")
    parser.add_argument("--float32", action="store_true", help="not bfloat16")
    parser.add_argument("--cache", help="folder where compilers keep what they make")
    parser.add_argument("--json", help="file for all numbers")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    return parser.parse_args()


def traced(options, environment, seconds):
    """What `peers.kernels` gives, of a process of its own that may take so long."""
    output = processes.output_of(
        "peers.kernels", json.dumps(options), environment=environment, seconds=seconds
    )
    return json.loads(output.splitlines()[-1])


def report(name, numbers):
    print(f"\n### {name}")
    span = numbers["span"]
    rows = {
        "a step, without the profiler": numbers["step"],
        "the device, first to last kernel": span,
        **{f"kernels: {kind}": ms for kind, ms in _falling(numbers["kinds"])},
        "gaps without a kernel": span - numbers["busy"],
        "a batch made on the host": numbers["batch"],
    }
    print_table(
        ["milliseconds", "a step", "of the device's time"],
        [[row, f"{ms:.3f}", f"{ms / span:.1%}"] for row, ms in rows.items()],
    )
    print(f"\n{numbers['launches']:.0f} kernels a step; the longest:")
    print_table(
        ["kernel", "ms a step"],
        [[f"`{row[:80]}`", f"{ms:.3f}"] for row, ms in _falling(numbers["kernels"])],
    )


def _falling(numbers):
    return sorted(numbers.items(), key=lambda item: -item[1])


if __name__ == "__main__":
    main()
