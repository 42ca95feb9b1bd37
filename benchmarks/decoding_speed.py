"""Decoding: this package against KerasHub, Hugging Face's Marian and CTranslate2.

    pip install -c constraints.txt -r benchmarks/requirements.txt
    python benchmarks/decoding_speed.py [--rounds 5] [--seconds 2]
    python benchmarks/decoding_speed.py --preset base --only float32 int8
    python benchmarks/decoding_speed.py --preset tiny --batch 1 --beam 4 --only ours

Everyone translates the same ids, sentences of 20 to 24 tokens, from ids to ids, with a
model of the same size and random weights, into exactly 32 tokens a sentence: the end is
forbidden before. So the numbers say what a step costs, and nothing of what a search
saves by ending early, on real text, or of one better batched. Beams beyond the first do
not count as output.

This package runs the search that `Translator` runs; KerasHub its layers, caches and
samplers in one compiled step, as its models generate; Marian its `generate`, as it
comes and with caches of fixed size and a step that `torch.compile` has made.
CTranslate2 has this package's weights; it runs one worker of all threads, or a worker a
thread that share a batch. Its searches have rules of their own, but greedily, in
float32, it should find what this package finds: the last column counts such sentences.

All programs of a setting are in memory together; `--only` takes fewer.

Prints output tokens a second, the median over rounds, and two ratios, medians of the
rounds' ratios: to the fastest Python peer and to the faster CTranslate2 in float32;
then the ratio to KerasHub on the same backend, of the fastest of each.
"""

import argparse
import itertools
import json
import subprocess
import sys
import tempfile
from pathlib import Path

from turns import Program
from turns import by_backend
from turns import by_speed
from turns import chosen
from turns import fastest
from turns import machine
from turns import median
from turns import ratio
from turns import take_turns

_KEY = "tokens_per_second"
_EXACT = "CTranslate2, float32"  # what the names of both begin with
_TENSORFLOW = {"KERAS_BACKEND": "tensorflow"}
_JAX = {"KERAS_BACKEND": "jax"}
_TORCH = {"KERAS_BACKEND": "torch"}
_PYTHON = (
    ("ours, TensorFlow", "ours", {}, _TENSORFLOW),
    ("ours, JAX", "ours", {}, _JAX),
    ("ours, PyTorch", "ours", {}, _TORCH),
    ("KerasHub, TensorFlow", "keras_hub", {}, _TENSORFLOW),
    ("KerasHub, JAX", "keras_hub", {}, _JAX),
    ("KerasHub, PyTorch", "keras_hub", {}, _TORCH),
    ("Hugging Face Marian", "marian", {}, {}),
    ("Hugging Face Marian compiled", "marian", {"static": True}, {}),
)

#: `{name: (program, variant, environment)}`
PROGRAMS = {
    f"{name}, {dtype}": (
        program,
        {**settings, "bfloat16": dtype == "bfloat16"},
        environment,
    )
    for name, program, settings, environment in _PYTHON
    for dtype in ("float32", "bfloat16")
} | {
    f"CTranslate2, {dtype}, {label}": (
        "ctranslate2",
        {"compute_type": dtype, "share": share},
        {},
    )
    for dtype in ("float32", "int8")
    for label, share in (("one worker", False), ("a worker a thread", True))
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    sizes = ["tiny", "base", "big"]
    parser.add_argument("--preset", nargs="+", default=sizes[:2], choices=sizes)
    parser.add_argument("--batch", nargs="+", type=int, default=[1, 64])
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--vocabulary-size", type=int, default=8000)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--seconds", type=float, default=2.0, help="in a round, or more"
    )
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    arguments = parser.parse_args()
    print(machine())
    for preset in arguments.preset:
        with tempfile.TemporaryDirectory() as folder:
            size = str(arguments.vocabulary_size)
            command = [sys.executable, "-m", "peers.random_model", folder, preset, size]
            subprocess.run(command, cwd=Path(__file__).parent, check=True)
            for setting in itertools.product(arguments.batch, arguments.beam):
                measure(arguments, folder, preset, *setting)


def measure(arguments, folder, preset, batch, beam_size):
    """Prints the table of one setting, whose programs end with it."""
    programs = []
    for name in chosen(PROGRAMS, arguments.only):
        program, variant, environment = PROGRAMS[name]
        if variant.get("static") and beam_size > 1:
            continue  # its `generate` compiles greedy search alone
        options = {
            **variant,
            "preset": preset,
            "vocabulary_size": arguments.vocabulary_size,
            "folder": folder,
            "seconds": arguments.seconds,
        }
        command = ["-m", "peers.decode", program, json.dumps(options)]
        programs.append(Program(name, command, environment))
    job = {"batch": batch, "beam_size": beam_size}
    found = take_turns(programs, arguments.rounds, job=job)
    peers = [name for name in found if not name.startswith(("ours", "CTranslate2"))]
    exact = [name for name in found if name.startswith(_EXACT)]
    best, exact = fastest(found, peers, _KEY), fastest(found, exact, _KEY)
    ours = [rows[-1]["ids"] for name, rows in found.items() if name.startswith("ours")]
    print(f"\n### {preset}, batch {batch}, beam {beam_size}\n")
    print(
        "| program | output tokens/s | to the fastest Python peer "
        "| to CTranslate2 float32 | sentences as ours |"
    )
    print("|---|---|---|---|---|")
    for name, rows in by_speed(found, _KEY):
        same = "-"
        if ours:
            same = sum(a == b for a, b in zip(rows[-1]["ids"], ours[0], strict=True))
        print(
            f"| {name} | {median(rows, _KEY):.0f} | {ratio(rows, best, _KEY)} "
            f"| {ratio(rows, exact, _KEY)} | {same} of {batch} |",
            flush=True,
        )
    for backend, times in by_backend(found, _KEY).items():
        print(f"\n{backend}: {times} times KerasHub", flush=True)


if __name__ == "__main__":
    main()
