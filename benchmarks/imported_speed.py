"""Translation with an imported model: this package, `transformers` and CTranslate2.

    pip install -c constraints.txt -r benchmarks/requirements.txt
    python benchmarks/imported_speed.py [--rounds 5] [--seconds 5]
    python benchmarks/imported_speed.py --layers 1 --dim 64 --only ours transformers

All translate the same lines of the phrasebook with the same MarianMT folder, which is
made here, of the size of an OPUS-MT model and with random weights: text comes in and
goes out, so that tokenizers count. `Translator` has it by `kt.importing`, CTranslate2
by an export of that, and `transformers` loads it as it is. All run in float32.

A model of random weights does not end: each translation has exactly 32 tokens, the end
is forbidden before. So the numbers say nothing of what a search saves by ending early.

All programs are in memory together and take turns. Prints sentences a second, warm, the
median over rounds, and the median of the rounds' ratios to `transformers`.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import Clock
from turns import Program
from turns import by_speed
from turns import chosen
from turns import machine
from turns import median
from turns import play
from turns import prepared
from turns import ratio

_KEY = "sentences_per_second"
_PEER = "transformers"

#: `{name: (program, environment)}`
PROGRAMS = {
    "ours, TensorFlow": ("ours", {"KERAS_BACKEND": "tensorflow"}),
    "ours, JAX": ("ours", {"KERAS_BACKEND": "jax"}),
    "ours, PyTorch": ("ours", {"KERAS_BACKEND": "torch"}),
    _PEER: ("transformers", {}),
    "CTranslate2": ("ctranslate2", {}),
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--layers", type=int, default=6, help="of each side")
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--vocabulary-size", type=int, default=58000)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=5.0, help="in a round")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    arguments = parser.parse_args()
    print(machine())
    with tempfile.TemporaryDirectory() as folder:
        sizes = [arguments.layers, arguments.dim, arguments.vocabulary_size]
        command = [sys.executable, "-m", "peers.imported_folder", folder]
        command += map(str, sizes)
        subprocess.run(command, cwd=Path(__file__).parent, check=True)
        programs = []
        for name in chosen(PROGRAMS, arguments.only):
            program, environment = PROGRAMS[name]
            options = json.dumps({"folder": folder, "seconds": arguments.seconds})
            command = ["-m", "peers.imported", program, options]
            programs.append(Program(name, command, environment))
        programs = prepared(programs, Clock())
        for batch, beam_size in itertools.product(arguments.batch, arguments.beam):
            job = {"batch": batch, "beam_size": beam_size}
            report(play(programs, arguments.rounds, Clock(), job), job)
        for program in programs:
            program.end()


def report(found, job):
    """Prints the table of one setting."""
    peer = found.get(_PEER)
    print(f"\n### batch {job['batch']}, beam {job['beam_size']}\n")
    print("| program | sentences/s | to transformers |")
    print("|---|---|---|")
    for name, rows in by_speed(found, _KEY):
        print(
            f"| {name} | {median(rows, _KEY):.2f} | {ratio(rows, peer, _KEY)} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
