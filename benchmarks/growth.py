"""How time grows: a training step with its tokens, a translation with its length.

    KERAS_BACKEND=jax python benchmarks/growth.py [--preset tiny] [--plot growth.png]

Training steps have sentences of 24 target tokens and ever more of them; translations
are of 16 sentences of the same 20 to 24 tokens and are made ever longer, greedily and
with beam 4. All sizes take turns in every round. Prints milliseconds, medians over the
rounds, and how often the time of the smallest size each one is: if time is linear, as
often as its size, or less where a fixed part is large. `--plot` draws them.
"""

import argparse
import statistics
import time
from pathlib import Path

import keras
import numpy as np
from matplotlib.figure import Figure
from peers import ours
from peers.batches import SIZES
from peers.batches import sources
from turns import machine

from keras_transformer.decoding import DecodingOptions
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import Sentence

TARGET_LENGTH, ROWS = 24, 16
STEPS = 4  # of one call of `fit`, which takes time itself


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--preset", default="tiny", choices=list(SIZES))
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--sentences", nargs="+", type=int, default=[32, 64, 128, 256])
    parser.add_argument("--lengths", nargs="+", type=int, default=[16, 32, 64, 128])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--plot", type=Path, help="a picture to write")
    arguments = parser.parse_args()
    print(machine(), keras.backend.backend(), arguments.preset)
    tokens = [count * TARGET_LENGTH for count in arguments.sentences]
    train, translate = training(arguments), translation(arguments)
    curves = {
        ("training step", "target tokens of a batch"): (
            tokens,
            {
                "Adam": [
                    seconds / STEPS
                    for seconds in measure(train, arguments.sentences, arguments.rounds)
                ]
            },
        ),
        ("translation", "tokens of each translation"): (
            arguments.lengths,
            {
                label: measure(run, arguments.lengths, arguments.rounds)
                for label, run in translate.items()
            },
        ),
    }
    for (name, axis), (sizes, lines) in curves.items():
        for label, times in lines.items():
            print(
                f"\n{name}, {label}\n\n| {axis} | ms | size | time |\n|---|---|---|---|"
            )
            for size, found in zip(sizes, times, strict=True):
                ratios = f"{size / sizes[0]:.1f} x | {found / times[0]:.1f} x"
                print(f"| {size} | {1000 * found:.1f} | {ratios} |")
    if arguments.plot:
        draw(curves, arguments)


def training(arguments):
    """A function that makes `STEPS` steps on so many sentences."""
    random = np.random.default_rng(1)
    trainers = {}
    for count in arguments.sentences:
        shape = (count, TARGET_LENGTH)
        labels = random.integers(4, arguments.vocabulary_size, shape).astype("int32")
        trainers[count] = ours.trainer(
            [(labels, labels, labels)],
            preset=arguments.preset,
            vocabulary_size=arguments.vocabulary_size,
            bfloat16=False,
        )
    return lambda count: trainers[count](STEPS)


def translation(arguments):
    """Functions that translate into so many tokens."""
    search = BatchSearch(ours.build(arguments.preset, arguments.vocabulary_size))
    sentences = [Sentence(ids) for ids in sources(arguments.vocabulary_size, ROWS)]

    def function(beam_size):
        def translate(length):
            options = DecodingOptions(
                beam_size=beam_size, min_length=length, max_length=length
            )
            search.translate(sentences, options, ROWS)

        return translate

    return {"greedy": function(1), "beam 4": function(4)}


def measure(run, sizes, rounds):
    """Median seconds of `run(size)` for each size."""
    for size in sizes:
        run(size)  # compiles
    times = [[] for _ in sizes]
    for _ in range(rounds):
        for found, size in zip(times, sizes, strict=True):
            start = time.perf_counter()
            run(size)
            found.append(time.perf_counter() - start)
    return [statistics.median(found) for found in times]


def draw(curves, arguments):
    figure = Figure(figsize=(9, 3.6), layout="constrained")
    axes = figure.subplots(1, len(curves))
    for axis, ((name, label), (sizes, lines)) in zip(axes, curves.items(), strict=True):
        for line, times in lines.items():
            milliseconds = [1000 * found for found in times]
            axis.plot(sizes, milliseconds, marker="o", label=line)
        axis.set(title=name, xlabel=label, ylabel="milliseconds", xticks=sizes)
        axis.set_xlim(0)
        axis.set_ylim(0)
        axis.grid(alpha=0.3)
        axis.legend()
    backend = keras.backend.backend()
    figure.suptitle(f"`{arguments.preset}`, {backend}, {machine()}")
    figure.savefig(arguments.plot, dpi=120)


if __name__ == "__main__":
    main()
