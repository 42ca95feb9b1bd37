"""Training on a GPU: this package against compiled PyTorch peers and JAX by hand.

    python -m gpu.training --size base [--minutes 10] [--json FILE]
    python -m gpu.training --size big --only ours

Run it in the folder of benchmarks. Everyone trains on the same ids, in this package's
batches of 25 000 target tokens of up to eight shapes, in bfloat16 with weights in
float32, with dropout 0.1, label smoothing 0.1 and Adam. This package runs plain
`model.fit`, from arrays of the host; the others a loop of their own, with their ids on
the device already. A round is one pass over the batches. Ids are made up (see
`peers/corpus.py`) or come from a text: `--text source.txt target.txt`.

With less than 6 minutes it has one shape, sentences of about 28 tokens, and two rounds
of 40 steps. Each round is printed as soon as it is known; the table at the end has
every program, and says why one was left out. Programs prepare side by side where there
are processors for it: `--only` gives the first step of one alone.

Prints, of each program: target tokens a second, padding not counted, the median over
rounds; the ratio to the fastest peer, the median of the rounds' ratios; MFU (`mfu.py`)
against the card's dense bfloat16 peak, and against the matrix products that were timed
in the same rounds; the most memory; the seconds of the first step, which compiles the
first shape, and of all before the first round; the loss after all rounds.
"""

import argparse
import json
import tempfile
from pathlib import Path

from peers.batches import SIZES
from peers.batches import load
from turns import Program
from turns import by_speed
from turns import chosen
from turns import fastest
from turns import median
from turns import ratio
from turns import take_turns

from gpu import mfu
from gpu import processes
from gpu.environments import JAX_TRAINING
from gpu.environments import TENSORFLOW
from gpu.environments import TORCH
from gpu.environments import at_once
from gpu.environments import caches
from gpu.environments import is_short
from gpu.environments import missing
from gpu.environments import on_host
from gpu.report import Machine
from gpu.report import print_table
from gpu.report import write_json

_KEY = "tokens_per_second"
_COMPILE = {"jit_compile": True}
_MATRIX = "matrix product"
_COMPILED = {"compiled": True}

#: `{name: (program, variant, environment, what it needs)}`
PROGRAMS = {
    "ours, JAX": ("ours", {}, JAX_TRAINING, ["jax"]),
    "ours, PyTorch": ("ours", _COMPILE, TORCH, ["torch"]),
    "ours, TensorFlow": ("ours", _COMPILE, TENSORFLOW, ["tensorflow"]),
    "ours, TensorFlow, MirroredStrategy": (
        "ours",
        {"mirrored": True},
        TENSORFLOW,
        ["tensorflow"],
    ),
    "JAX by hand": ("jax_loop", {}, JAX_TRAINING, ["jax"]),
    "torch.nn.Transformer compiled": ("torch_nn", _COMPILED, TORCH, ["torch"]),
    "Hugging Face Marian compiled": (
        "marian",
        _COMPILED,
        TORCH,
        ["torch", "transformers"],
    ),
}
#: Of the batches (see `peers.corpus.cut`), and the size of the matrices.
FULL = {
    "vocabulary_size": 37_000,
    "batch_tokens": 25_000,
    "steps": 100,
    "buckets": 8,
}
#: One shape to compile, and sentences of nearly its length.
SHORT = {**FULL, "steps": 40, "buckets": 1, "lengths": (28, 2, 31)}
TOY = {"vocabulary_size": 100, "batch_tokens": 300, "steps": 2, "buckets": 1}
_MATRIX_SIZE = 8192


def main():
    arguments = parse()
    toy = arguments.size == "toy"
    short = is_short(arguments.minutes)
    settings = TOY if toy else SHORT if short else FULL
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        path = Path(folder, "batches.npz")
        cut(path, settings, arguments.text)
        data = load(path)
        settings = {
            **settings,
            "steps": len(data),
            "preset": arguments.size,
            "bfloat16": not arguments.float32,
            "matrix_size": 64 if toy else _MATRIX_SIZE,
        }
        programs, faults = make_programs(arguments, settings, path)
        machine.print()
        found = take_turns(
            programs,
            arguments.rounds or (2 if short else 3),
            arguments.minutes,
            at_once=at_once(),
            tell=tell,
        )
    faults |= {program.name: program.fault for program in programs if program.fault}
    machine.print_load()
    size = SIZES[arguments.size], settings["vocabulary_size"]
    flops = mfu.flops_per_token(*size, data)
    peak = arguments.peak and arguments.peak * 1e12
    peak = peak or mfu.peak_of(machine.card or "")
    rows = found.pop(_MATRIX, None)
    rate = median(rows, "flops_per_second") if rows else None
    report(settings, found, faults, flops, peak, rate)
    write_json(
        arguments.json,
        {
            "benchmark": "training",
            "settings": settings,
            "machine": machine.facts,
            "flops_per_target_token": flops,
            "peak_flops_per_second": peak,
            "matrix_flops_per_second": rate,
            "rounds": found,
            "left_out": faults,
        },
    )


def tell(name, numbers):
    """A line of what a round has found."""
    if _KEY in numbers:
        print(f"{name}: {numbers[_KEY]:.0f} target tokens/s", flush=True)


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--rounds", type=int, help="default: 3, in short 2")
    minutes = "for all of it; below 6: a short table"
    parser.add_argument("--minutes", type=float, default=9.5, help=minutes)
    parser.add_argument("--text", nargs=2, metavar=("SOURCE", "TARGET"))
    parser.add_argument("--peak", type=float, help="dense bfloat16 TFLOP/s of the card")
    parser.add_argument("--float32", action="store_true", help="not bfloat16")
    parser.add_argument("--cache", help="folder where compilers keep what they make")
    parser.add_argument("--json", help="file for all numbers of all rounds")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    return parser.parse_args()


def cut(path, settings, text=None):
    """Writes the batches, in a process that takes no memory of the card."""
    options = json.dumps({**settings, "text": text})
    processes.output_of("peers.corpus", path, options, environment=on_host())


def make_programs(arguments, settings, path):
    """Those that can run, and `{name: why not}` of the others."""
    options = {
        **{name: settings[name] for name in ("preset", "vocabulary_size", "steps")},
        "bfloat16": settings["bfloat16"],
        "batches": str(path),
    }
    kept = caches(arguments.cache)
    programs, faults = [], {}
    for name in chosen(PROGRAMS, arguments.only):
        program, variant, environment, needed = PROGRAMS[name]
        if fault := missing(needed):
            faults[name] = fault
        else:
            command = ["-m", "peers.train", program, json.dumps(options | variant)]
            programs.append(Program(name, command, environment | kept))
    command = ["-m", "peers.matrix_rate", settings["matrix_size"]]
    return [*programs, Program(_MATRIX, command, JAX_TRAINING)], faults


def report(settings, found, faults, flops, peak, rate):
    print(f"{flops / 1e9:.4g} GFLOP a target token; {json.dumps(settings)}")
    text = " and ".join(
        f"{name} {value / 1e12:.4g} TFLOP/s"
        for name, value in (("peak", peak), ("matrix products", rate))
        if value
    )
    print(text)
    peers = [name for name in found if not name.startswith("ours")]
    best = fastest(found, peers, _KEY)
    rows = []
    for name, numbers in by_speed(found, _KEY):
        speed, last = median(numbers, _KEY), numbers[-1]
        rows.append(
            [
                name,
                f"{speed:.0f}",
                ratio(numbers, best, _KEY),
                *(f"{speed * flops / of:.1%}" if of else "-" for of in (peak, rate)),
                f"{last['peak_bytes'] / 2**30:.1f}",
                f"{last['first_step_seconds']:.1f}",
                f"{last['preparation_seconds']:.0f}",
                f"{last['loss']:.3f}",
            ]
        )
    rows += [[name, f"left out: {fault}", *["-"] * 7] for name, fault in faults.items()]
    head = "program; target tokens/s; to the fastest peer; MFU of the peak; "
    head += "MFU of the matrix products; peak GiB; first step s; preparation s; loss"
    print_table(head.split("; "), rows)


if __name__ == "__main__":
    main()
