"""What restricted self-attention costs: a training step over the target's length n.

    KERAS_BACKEND=jax python benchmarks/attention_window.py [--window 64] [--plot P.png]

A Transformer whose decoder reads n target tokens, with `attention_window` and without;
the source has 64 tokens, since attention to the source is over all of it. Each length
has a process of its own, which compiles, then makes steps; in every round all of them
take turns. Prints medians over all steps: milliseconds, seconds of the processor, and
MiB, the peak of the step above model and optimizer; and how often that of half the
length each one is. `--plot` draws them.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
from pathlib import Path

import keras
from matplotlib.figure import Figure
from turns import machine

from keras_transformer.cli import allocator

MEASURES = {"wall": "ms", "processor": "processor s", "memory": "MiB"}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--preset", default="tiny")
    parser.add_argument("--window", type=int, default=64)
    parser.add_argument(
        "--lengths", nargs="+", type=int, default=[512, 1024, 2048, 4096, 8192]
    )
    parser.add_argument(
        "--longest-full", type=int, default=4096, help="without a window"
    )
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--steps", type=int, default=2, help="of each round")
    parser.add_argument("--plot", type=Path, help="a picture to write")
    arguments = parser.parse_args()
    print(machine(), keras.backend.backend(), arguments.preset, flush=True)
    jobs = [
        (window, length)
        for length in arguments.lengths
        for window in (arguments.window, None)
        if window or length <= arguments.longest_full
    ]
    found = {job: [] for job in jobs}
    for _ in range(arguments.rounds):
        for job in jobs:
            steps = measure(arguments, *job)
            print(*job, *steps, flush=True)
            found[job] += steps
    medians = {
        job: {
            name: statistics.median(step[name] for step in steps) for name in MEASURES
        }
        for job, steps in found.items()
    }
    print("\n| window | n | ms | processor s | MiB | to half of n |\n|" + "---|" * 6)
    for (window, length), its in medians.items():
        half = medians.get((window, length // 2))
        ratios = (
            [f"{its[name] / half[name]:.2f}" for name in MEASURES] if half else ["-"]
        )
        print(
            f"| {window or 'none'} | {length} | {1000 * its['wall']:.0f} | "
            f"{its['processor']:.2f} | {its['memory']:.0f} | {', '.join(ratios)} |"
        )
    if arguments.plot:
        draw(medians, arguments)


def measure(arguments, window, length):
    """`{"wall", "processor", "memory"}` of each step."""
    job = [arguments.preset, window, length, arguments.steps]
    output = subprocess.run(
        [sys.executable, "-c", _STEPS, json.dumps(job)],
        cwd=Path(__file__).parent,
        env={**os.environ, **allocator.settings(), "TF_CPP_MIN_LOG_LEVEL": "3"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


_STEPS = """
import json
import sys
import time

import numpy as np
import keras_transformer as kt
from keras_transformer import backends

preset, window, length, steps = json.loads(sys.argv[1])
config = kt.TransformerConfig.from_preset(
    preset, vocabulary_size=1000, attention_window=window
)
model = kt.Transformer(config)
loss = kt.training.LabelSmoothedCrossEntropy(0.1)
model.compile(optimizer="adam", loss=loss)
random = np.random.default_rng(1)


def fit(source_length, target_length):
    shapes = {"source": (1, source_length), "target": (1, target_length)}
    inputs = {
        side: random.integers(4, 1000, shape).astype("int32")
        for side, shape in shapes.items()
    }
    model.fit(inputs, inputs["target"], batch_size=1, verbose=0)


fit(3, 2)  # libraries and optimizer are there before memory is measured
before = backends.peak_memory(lambda: None)
fit(64, length)  # compiles
found = []
for _ in range(steps):
    start = time.perf_counter(), time.process_time()
    peak = backends.peak_memory(lambda: fit(64, length))
    wall, processor = time.perf_counter() - start[0], time.process_time() - start[1]
    memory = (peak - before) / 2**20
    found.append({"wall": wall, "processor": processor, "memory": memory})
print(json.dumps(found))
"""


def draw(medians, arguments):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    for axes, name, label in (
        (left, "processor", "seconds of the processor"),
        (right, "memory", "MiB above model and optimizer"),
    ):
        for window in (None, arguments.window):
            sizes = [length for w, length in medians if w == window]
            label_of_line = f"r = {window}" if window else "unrestricted"
            values = [medians[window, length][name] for length in sizes]
            axes.plot(sizes, values, marker="o", label=label_of_line)
        axes.set(xlabel="n, target tokens", ylabel=label, xscale="log", yscale="log")
        axes.set_xticks(arguments.lengths, list(map(str, arguments.lengths)))
        axes.minorticks_off()
        axes.grid(alpha=0.3)
        axes.legend()
    backend = keras.backend.backend()
    figure.suptitle(f"A training step, `{arguments.preset}`, {backend}, {machine()}")
    figure.savefig(arguments.plot, dpi=120)


if __name__ == "__main__":
    main()
