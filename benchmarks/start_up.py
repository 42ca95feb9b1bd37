"""What does a command cost before it works? Against the imports that it cannot spare.

    python benchmarks/start_up.py MODEL [--backends tensorflow jax torch] [--rounds 5]

In turns, each in a process of its own: `import keras` with its backend, `--help`, and
`translate` of one sentence. A first round is not counted: it fills the caches of files
and of compiled programs. TensorFlow keeps those only where it is told to, as
`docs/speed.md` says; it is measured without and with them. Prints medians in seconds,
and of `translate` the median of the rounds' ratios to the import.
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from turns import compile_python

BACKENDS = ("tensorflow", "jax", "torch")
PROGRAM = [sys.executable, "-m", "keras_transformer.cli.main"]
IMPORT = [sys.executable, "-c", "import keras"]


def variants(backends, folder):
    """`{name: environment}`; the folder is for compiled programs."""
    keeping = f"--tf_xla_persistent_cache_directory={folder}"
    found = {backend: {"KERAS_BACKEND": backend} for backend in backends}
    if "tensorflow" in found:
        kept = {**found["tensorflow"], "TF_XLA_FLAGS": keeping}
        found["tensorflow, programs kept"] = kept
    return found


def seconds(command, variables, text=""):
    """How long a process takes, from its start to its end."""
    environment = {**os.environ, **variables, "TF_CPP_MIN_LOG_LEVEL": "3"}
    start = time.perf_counter()
    subprocess.run(
        command,
        input=text.encode(),
        env=environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    return time.perf_counter() - start


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("--text", default="A man is sleeping .", help="a sentence")
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    compile_python(Path(__file__).resolve().parent.parent)
    print("| backend | import keras | --help | translate | to the import |")
    print("|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as folder:
        for name, variables in variants(arguments.backends, folder).items():
            print(f"| {name} | {' | '.join(row(arguments, variables))} |", flush=True)


def row(arguments, variables):
    """The cells of one variant."""
    translate = [*PROGRAM, "translate", str(arguments.model)]
    rounds = [
        (
            seconds(IMPORT, variables),
            seconds([*PROGRAM, "--help"], variables),
            seconds(translate, variables, f"{arguments.text}\n"),
        )
        for _ in range(1 + arguments.rounds)
    ][1:]
    medians = map(statistics.median, zip(*rounds, strict=True))
    ratio = statistics.median(whole / imported for imported, _, whole in rounds)
    return [f"{value:.2f}" for value in (*medians, ratio)]


if __name__ == "__main__":
    main()
