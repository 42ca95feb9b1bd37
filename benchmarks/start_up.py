"""What does a command cost before it works? Against the imports that it cannot spare.

    python benchmarks/start_up.py MODEL [--backends tensorflow jax torch] [--rounds 5]

In turns, each in a process of its own: `import keras` with its backend, `--help`, and
`translate` of one sentence. A first round is not counted: it fills the caches of files
and of compiled programs. Prints medians in seconds, and of `translate` the median of
the rounds' ratios to the import.
"""

import argparse
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")
PROGRAM = [sys.executable, "-m", "keras_transformer.cli.main"]
IMPORT = [sys.executable, "-c", "import keras"]


def seconds(command, backend, text=""):
    """How long a process takes, from its start to its end."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
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
    translate = [*PROGRAM, "translate", str(arguments.model)]
    print("| backend | import keras | --help | translate | to the import |")
    print("|---|---|---|---|---|")
    for backend in arguments.backends:
        rows = []
        for _ in range(1 + arguments.rounds):
            rows.append(
                (
                    seconds(IMPORT, backend),
                    seconds([*PROGRAM, "--help"], backend),
                    seconds(translate, backend, f"{arguments.text}\n"),
                )
            )
        rows = rows[1:]
        medians = map(statistics.median, zip(*rows, strict=True))
        ratio = statistics.median(row[2] / row[0] for row in rows)
        cells = [f"{median:.2f}" for median in medians]
        print(f"| {backend} | {' | '.join(cells)} | {ratio:.2f} |", flush=True)


if __name__ == "__main__":
    main()
