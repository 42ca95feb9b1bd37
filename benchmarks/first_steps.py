"""How long until a new `keras-transformer train` has done its first hundred steps?

    python benchmarks/first_steps.py --before CHECKOUT [--rounds 3]
    python benchmarks/first_steps.py --backends jax --config my.yaml
    python benchmarks/first_steps.py --steps 2 --rounds 1     # to see that it runs

Imports, tokenizer, encoding and what is compiled count. Without `--config` it is the
run of README's first command. A new run with an empty folder of caches ("empty") is
followed by one that finds what the first left there ("kept"). With `--before`, another
version of the package takes turns with this one. A run is killed after its last step.

Prints medians of seconds by the clock, and the medians of the rounds' ratios to the
other version, below 1 where this one is the faster.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from cold import BACKENDS
from cold import CACHES
from cold import ratio
from cold import wall
from turns import compile_python
from turns import machine

HERE = Path(__file__).resolve().parent


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--config", type=Path, help="of the run")
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--backends", nargs="+", choices=list(BACKENDS.values()))
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    arguments = parser.parse_args()
    trees = {"ours": HERE.parent}
    if arguments.before:
        trees["before"] = arguments.before.resolve()
    compile_python(*trees.values())
    backends = arguments.backends or list(BACKENDS.values())
    found = {}
    for _, backend, (version, tree) in itertools.product(
        range(arguments.rounds), backends, trees.items()
    ):
        with tempfile.TemporaryDirectory() as cache:
            for caches in CACHES:
                taken = seconds(arguments, tree, backend, cache)
                found.setdefault((backend, caches, version), []).append([taken])
    print(machine())
    print(
        "| backend | caches | seconds | before | ratio | n |\n|---|---|---|---|---|---|"
    )
    for backend, caches in itertools.product(backends, CACHES):
        ours = found[backend, caches, "ours"]
        before = found.get((backend, caches, "before"))
        cells = [backend, caches, f"{wall(ours):.1f}"]
        cells += [f"{wall(before):.1f}" if before else "-", ratio(ours, before)]
        print(f"| {' | '.join([*cells, str(len(ours))])} |", flush=True)


def seconds(arguments, tree, backend, cache):
    """How long one run takes to its last step, from the start of its process."""
    variables = {"KERAS_BACKEND": backend, "XDG_CACHE_HOME": cache}
    variables |= {"PYTHONPATH": str(tree), "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment = {**os.environ, **variables}
    for name in ("JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"):
        environment.pop(name, None)
    last = re.compile(rf"step {arguments.steps}/")
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "keras_transformer.cli.main", "train"]
        command += [arguments.config.resolve()] if arguments.config else []
        command += ["--set", f"output={folder}/run"]
        command += ["--set", f"training.steps={arguments.steps}"]
        command += ["--set", "training.warmup_steps=1"]
        start = time.perf_counter()
        with subprocess.Popen(
            list(map(str, command)),
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process:
            lines = []
            for line in process.stdout:
                lines.append(line)
                if last.match(line):
                    taken = time.perf_counter() - start
                    process.kill()
                    return taken
    sys.exit("".join(lines))


if __name__ == "__main__":
    main()
