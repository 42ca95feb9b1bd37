"""How long does the translation of a file take, from the start of a process to its end?

    pip install -c constraints.txt -r benchmarks/requirements.txt
    python benchmarks/cold.py [--rounds 3]
    python benchmarks/cold.py --preset tiny --beam 1 --only "ours, JAX" transformers
    python benchmarks/cold.py --lines 100 --rounds 1     # to see that it runs
    python benchmarks/cold.py --before CHECKOUT          # another version, too

Lines of 2 to 60 words of the phrasebook, drawn at random, go through `keras-transformer
translate`, through Hugging Face's Marian and through CTranslate2, each time in a new
process: imports, the reading of the model and what is compiled count. All have one
model of random weights, in float32 unless the name says int8, made here, and write
exactly 24 tokens a line.

This package runs twice in a round: with an empty folder of caches ("empty"), and again
with what the first run left there ("kept"). The peers keep nothing. All take turns, and
whatever else the machine does affects all of them.

Prints medians of seconds, wall and processor time; and medians of the rounds' ratios of
the wall seconds to those of the peers, below 1 where this package is the faster. The
last column counts lines that are translated as by the first program of ours.
"""

import argparse
import itertools
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from peers.batches import SIZES
from turns import chosen
from turns import compile_python
from turns import machine

HERE = Path(__file__).resolve().parent
TOKENS = 24
SHORTEST, LONGEST = 2, 60  # words of a line

BACKENDS = {"TensorFlow": "tensorflow", "JAX": "jax", "PyTorch": "torch"}
MARIAN, EXACT = "transformers", "CTranslate2"
PEERS = {
    MARIAN: "transformers",
    EXACT: "ctranslate2",
    "CTranslate2, int8": "ctranslate2_int8",
}
CACHES = ("empty", "kept")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    sizes = ["tiny", "base"]
    parser.add_argument("--preset", nargs="+", default=sizes, choices=SIZES)
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--lines", type=int, default=1000)
    parser.add_argument("--vocabulary-size", type=int, default=10000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    parser.add_argument("--caches", nargs="+", default=CACHES, choices=CACHES)
    parser.add_argument("--before", type=Path, help="a checkout of another version")
    arguments = parser.parse_args()
    compile_python(*filter(None, [HERE.parent, arguments.before]))
    print(machine())
    for preset in arguments.preset:
        with tempfile.TemporaryDirectory() as folder:
            layers, D, F, H = SIZES[preset]
            numbers = layers, D, arguments.vocabulary_size, F, H
            command = [sys.executable, "-m", "peers.imported_folder", folder]
            command += map(str, numbers)
            subprocess.run(command, cwd=HERE, check=True, stdout=subprocess.DEVNULL)
            text(Path(folder, "lines"), arguments.lines)
            for beam_size in arguments.beam:
                found = measured(arguments, Path(folder), beam_size)
                report(found, preset, beam_size)


def text(path, count):
    """Writes lines of words of the phrasebook."""
    from keras_transformer.data import phrasebook

    words = " ".join(phrasebook.load("en", "de", "test")[0]).split()
    draw = random.Random(1)
    lines = [
        " ".join(draw.choices(words, k=draw.randint(SHORTEST, LONGEST)))
        for _ in range(count)
    ]
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def measured(arguments, folder, beam_size):
    """`{(name, caches): [(wall, processor seconds, lines) of each round]}`."""
    versions = {"ours": HERE.parent}
    if arguments.before:
        versions["before"] = arguments.before.resolve()
    ours = {
        f"{version}, {name}": (tree, backend)
        for (version, tree), (name, backend) in itertools.product(
            versions.items(), BACKENDS.items()
        )
    }
    found = {}
    for _, name in itertools.product(
        range(arguments.rounds), chosen([*ours, *PEERS], arguments.only)
    ):
        if name in PEERS:
            numbers = run_peer(PEERS[name], folder, beam_size)
            found.setdefault((name, "-"), []).append(numbers)
            continue
        with tempfile.TemporaryDirectory() as cache:
            for caches in CACHES[: 1 + ("kept" in arguments.caches)]:
                numbers = run_ours(*ours[name], cache, folder, beam_size)
                if caches in arguments.caches:
                    found.setdefault((name, caches), []).append(numbers)
    return found


def run_ours(tree, backend, cache, folder, beam_size):
    """One run of `translate`, of the version in `tree`."""
    output = folder / "translations"
    command = [sys.executable, "-m", "keras_transformer.cli.main", "translate"]
    command += [folder / "ours", "--input", folder / "lines", "--output", output]
    command += ["--beam-size", beam_size, "--min-length", TOKENS]
    command += ["--max-length", TOKENS]
    variables = {"KERAS_BACKEND": backend, "XDG_CACHE_HOME": cache, "PYTHONPATH": tree}
    removed = "JAX_COMPILATION_CACHE_DIR", "TF_XLA_FLAGS"
    return *seconds(command, tree, variables, removed), output.read_text("utf-8")


def run_peer(program, folder, beam_size):
    output = folder / "translations"
    command = [sys.executable, "-m", "peers.cold", program, folder, folder / "lines"]
    command += [output, TOKENS, beam_size]
    return *seconds(command, HERE, {}), output.read_text("utf-8")


def seconds(command, directory, variables, removed=()):
    """How long a process takes, from its start to its end, and its processor time."""
    environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"}
    environment |= {name: str(value) for name, value in variables.items()}
    for name in removed:
        environment.pop(name, None)
    start = time.perf_counter()
    with tempfile.TemporaryFile() as messages:
        process = subprocess.Popen(
            list(map(str, command)),
            cwd=directory,
            env=environment,
            stdout=messages,
            stderr=messages,
        )
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        taken = time.perf_counter() - start
        if process.returncode:
            messages.seek(0)
            sys.exit(messages.read().decode(errors="replace"))
    return taken, usage.ru_utime + usage.ru_stime


def report(found, preset, beam_size):
    """Prints the table of one setting."""
    peers = {name: found.get((name, "-")) for name in (MARIAN, EXACT)}
    before = {key: rows for key, rows in found.items() if key[0].startswith("before")}
    first = next((rows for (name, _), rows in found.items() if name not in PEERS), None)
    print(f"\n### {preset}, beam {beam_size}\n")
    heads = ["program", "caches", "seconds", "processor seconds"]
    heads += [f"to {name}" for name in peers] + ["to before"] * bool(before)
    heads += ["lines as ours", "n"]
    print(f"| {' | '.join(heads)} |\n|{'---|' * len(heads)}")
    for (name, caches), rows in sorted(found.items(), key=lambda item: wall(item[1])):
        cells = [name, caches, f"{wall(rows):.1f}"]
        cells.append(f"{statistics.median(row[1] for row in rows):.1f}")
        cells += [ratio(rows, others) for others in peers.values()]
        if before:
            _, _, backend = name.partition("ours, ")
            cells.append(ratio(rows, before.get((f"before, {backend}", caches))))
        cells += [same(rows[-1][2], first[-1][2]) if first else "-", str(len(rows))]
        print(f"| {' | '.join(cells)} |", flush=True)


def wall(rows):
    return statistics.median(row[0] for row in rows)


def ratio(rows, others):
    if not others:
        return "-"
    pairs = zip(rows, others, strict=True)
    return f"{statistics.median(row[0] / other[0] for row, other in pairs):.2f}"


def same(output, other):
    pairs = list(zip(output.splitlines(), other.splitlines(), strict=True))
    return f"{sum(a == b for a, b in pairs)} of {len(pairs)}"


if __name__ == "__main__":
    main()
