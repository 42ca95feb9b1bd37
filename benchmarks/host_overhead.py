"""What a training step costs beyond its arithmetic: `train` against a loop by hand.

    python benchmarks/host_overhead.py [--backends jax tensorflow torch] [--rounds 7]
    python benchmarks/host_overhead.py --bpe-dropout

A model of almost no arithmetic (D 16, one layer, V 1000) learns from about 3450 target
tokens a step, by the steps of `keras-transformer train` with all its callbacks, and by
a loop that one writes by hand on that framework: hidden states, the same loss and its
gradient, the same optimizer; no metrics, no checks, each batch an array beforehand.
Both train in one process in turns, a window of steps each.

Prints milliseconds a step (medians over rounds) of both, how much `train` takes more
(the median of the rounds' differences), the same in seconds of all processors, and the
largest difference between the weights of the two after 20 steps.
"""

import argparse

from turns import Program
from turns import machine
from turns import median
from turns import take_turns

BACKENDS = ("jax", "tensorflow", "torch")
COLUMNS = ("train", "by hand", "more", "train, CPU", "by hand, CPU")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=100, help="of each, in a round")
    parser.add_argument("--bpe-dropout", action="store_true")
    arguments = parser.parse_args()
    job = {"steps": arguments.steps}
    dropout = ["--bpe-dropout"] if arguments.bpe_dropout else []
    programs = [
        Program(name, ["-m", "peers.host_loop", *dropout], {"KERAS_BACKEND": name})
        for name in arguments.backends
    ]
    found = take_turns(programs, arguments.rounds, job=job)
    print(f"{machine()}; n = {arguments.rounds} rounds of {arguments.steps} steps\n")
    print(f"| milliseconds a step | {' | '.join(COLUMNS)} | weights differ |")
    print(f"|---|{'---|' * len(COLUMNS)}---|")
    for name, rows in found.items():
        cells = " | ".join(f"{median(rows, column):.1f}" for column in COLUMNS)
        print(f"| {name} | {cells} | {rows[0]['difference']:.1e} |")


if __name__ == "__main__":
    main()
