"""Decoding on a GPU: this package against Hugging Face's Marian and CTranslate2.

    python -m gpu.decoding [--size base] [--json FILE] [--minutes 10]
    python -m gpu.decoding --batch 128 --beam 4 --source newstest2014.en

Run it in the folder of benchmarks. Everyone translates the same 1000 sentences, from
ids to ids, with a model of the same size, V = 37 000, in bfloat16 and with random
weights, sentences of similar length together. Each batch is written out to 16, 32, 64
or 128 tokens a sentence, the next that its longest source does not pass: the end is
forbidden before. So the numbers say what a step costs, on sentences of real lengths,
and nothing of what a search saves by ending early. A pass takes at most 32 batches,
evenly spread over the lengths. Beams beyond the first do not count as output.

Sentences are those of the embedded phrasebook or of `--source`, in the pieces of
`--tokenizer` or of one that is made of them.

Programs prepare for all settings side by side, before any of them is measured.

With less than 6 minutes there are batches of 1, 64 and 256, at most 8 of each, of
sentences of 17 to 32 tokens, and one round. Each setting is printed as soon as it is
known, and what was left out, with the reason.

This package runs the search that `Translator` runs. Marian runs its `generate`, as it
comes, and, where it compiles one (greedy search), with a cache of fixed size and a
compiled step. CTranslate2 has this package's weights.

Prints, for each setting: output tokens a second, the median over rounds; the seconds
that 1000 sentences take at that rate; the ratios to Marian and to CTranslate2, medians
of the rounds' ratios. With `--json` a second run on the same machine measures what the
file lacks; the clocks are then those of the last run.
"""

import argparse
import itertools
import json
import tempfile
from pathlib import Path

from peers.batches import SIZES
from turns import Clock
from turns import Program
from turns import by_speed
from turns import chosen
from turns import fastest
from turns import median
from turns import play
from turns import prepared
from turns import ratio
from turns import warm

from gpu import cublas
from gpu import processes
from gpu.environments import JAX
from gpu.environments import TENSORFLOW
from gpu.environments import TORCH
from gpu.environments import at_once
from gpu.environments import caches
from gpu.environments import is_short
from gpu.environments import missing
from gpu.environments import on_host
from gpu.report import Machine
from gpu.report import begun
from gpu.report import print_table
from gpu.report import write_json

_KEY = "tokens_per_second"
_MARIAN, _CTRANSLATE2 = "Hugging Face Marian", "CTranslate2"
_GREEDY = "Hugging Face Marian compiled"  # it compiles no beam search

#: `{name: (program, variant, environment, what it needs)}`
PROGRAMS = {
    "ours, JAX": ("ours", {}, JAX, ["jax"]),
    "ours, PyTorch": ("ours", {}, TORCH, ["torch"]),
    "ours, TensorFlow": ("ours", {}, TENSORFLOW, ["tensorflow"]),
    "ours, TensorFlow, MirroredStrategy": (
        "ours",
        {"mirrored": True},
        TENSORFLOW,
        ["tensorflow"],
    ),
    _MARIAN: ("marian", {}, {}, ["torch", "transformers"]),
    _GREEDY: ("marian", {"static": True}, {}, ["torch", "transformers"]),
    "CTranslate2, bfloat16": (
        "ctranslate2",
        {"compute_type": "bfloat16"},
        {},
        ["ctranslate2"],
    ),
    "CTranslate2, float16": (
        "ctranslate2",
        {"compute_type": "float16"},
        {},
        ["ctranslate2"],
    ),
    "CTranslate2, float32": (
        "ctranslate2",
        {"compute_type": "float32"},
        {},
        ["ctranslate2"],
    ),
}


def main():
    arguments = parse()
    clock = Clock(arguments.minutes)
    settings = {
        "preset": arguments.size,
        "vocabulary_size": 1000 if arguments.size == "toy" else 37_000,
        "sentences": arguments.sentences,
        "bfloat16": not arguments.float32,
        "source": arguments.source,
        "tokenizer": arguments.tokenizer,
    }
    short = is_short(arguments.minutes)
    batches = arguments.batch or ([1, 64, 256] if short else [1, 64, 128, 256, 1024])
    jobs = {
        f"batch {batch}, beam {beam_size}": (batch, beam_size)
        for batch, beam_size in itertools.product(batches, arguments.beam)
    }
    rounds = arguments.rounds or (1 if short else 3)
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        head = {"benchmark": "decoding", "settings": settings, "machine": machine.facts}
        results = begun(arguments.json, head).get("rounds", {})
        machine.print()
        for name, found in results.items():
            report(name, found, settings["sentences"])
        absent = [name for name in jobs if name not in results]
        programs, faults = [], {}
        if absent:
            write_inputs(folder, settings)
            made, faults = make_programs(arguments, settings, folder, short)
            programs = prepared(made, clock, at_once())
            warm(
                programs,
                lambda program: [
                    job_of(*jobs[name])
                    for name in absent
                    if takes_part(program, jobs[name][1])
                ],
                clock,
            )
            faults |= {program.name: program.fault for program in made if program.fault}
        for name in absent:
            found = measure(programs, rounds, clock, *jobs[name])
            if found:
                results[name] = found
                report(name, found, settings["sentences"])
                write_json(arguments.json, {**head, "rounds": results})
            else:
                faults[name] = "no time left" if programs else "no program left"
        for program in programs:
            program.end()
    machine.print_load()
    if faults:
        print_table(["left out", "because"], [[*fault] for fault in faults.items()])
    if absent:  # else the clocks are those of a machine that did nothing
        write_json(arguments.json, {**head, "rounds": results, "left_out": faults})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--batch", nargs="+", type=int)
    parser.add_argument("--beam", nargs="+", type=int, default=[1, 4])
    parser.add_argument("--sentences", type=int, default=1000)
    parser.add_argument("--source", help="file of sentences, one a line")
    parser.add_argument("--tokenizer", help="SentencePiece model that cuts them")
    parser.add_argument("--rounds", type=int, help="default: 3, in short 1")
    seconds = "in a round, or more"
    parser.add_argument("--seconds", type=float, default=1.0, help=seconds)
    minutes = "for all of it; below 6: a short table"
    parser.add_argument("--minutes", type=float, default=9.5, help=minutes)
    parser.add_argument("--float32", action="store_true", help="not bfloat16")
    parser.add_argument("--cache", help="folder where compilers keep what they make")
    parser.add_argument("--json", help="file of all numbers, and of what is done")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    return parser.parse_args()


def write_inputs(folder, settings):
    """The weights and the sentences, by processes that leave the card alone."""
    size = str(settings["vocabulary_size"])
    options = {
        "count": settings["sentences"],
        **{name: settings[name] for name in ("vocabulary_size", "source", "tokenizer")},
    }
    for module, *arguments in (
        ["peers.random_model", folder, settings["preset"], size],
        ["peers.sentences", Path(folder, "sentences.json"), json.dumps(options)],
    ):
        processes.output_of(module, *arguments, environment=on_host())


def make_programs(arguments, settings, folder, short):
    """Those that can run, and `{name: why not}` of the others."""
    options = {
        **{name: settings[name] for name in ("preset", "vocabulary_size", "bfloat16")},
        "folder": folder,
        "sentences": str(Path(folder, "sentences.json")),
        "seconds": arguments.seconds,
        "most_batches": 8 if short else 32,  # of a text in a pass
        "one_length": short,
    }
    programs, faults = [], {}
    for name in chosen(PROGRAMS, arguments.only):
        program, variant, environment, needed = PROGRAMS[name]
        kind = variant.get("compute_type")
        if kind is not None and (kind == "float32") != arguments.float32:
            continue
        if fault := missing(needed):
            faults[name] = fault
            continue
        command = ["-m", "peers.decode", program, json.dumps(options | variant)]
        environment = environment | caches(arguments.cache)
        if kind is not None:
            environment |= cublas.environment(Path(folder, "cublas"))
        programs.append(Program(name, command, environment))
    return programs, faults


def job_of(batch, beam_size):
    """What a program of `peers.decode` is told."""
    return {"batch": batch, "beam_size": beam_size}


def takes_part(program, beam_size):
    """Whether a program has such a search: Marian compiles a greedy one alone."""
    return beam_size == 1 or program.name != _GREEDY


def measure(programs, rounds, clock, batch, beam_size):
    """The rounds of each program, without the ids that it has found."""
    if not clock.lasts():
        return {}
    playing = [program for program in programs if takes_part(program, beam_size)]
    found = play(playing, rounds, clock, job_of(batch, beam_size))
    programs[:] = [p for p in programs if p.process.poll() is None]
    for rows in found.values():
        for row in rows:
            row.pop("ids")
    return found


def report(name, found, sentences):
    print(f"\n### {name}")
    others = {
        label: fastest(found, [n for n in found if n.startswith(label)], _KEY)
        for label in (_MARIAN, _CTRANSLATE2)
    }
    rows = []
    for program, numbers in by_speed(found, _KEY):
        speed, last = median(numbers, _KEY), numbers[-1]
        seconds = last["tokens"] / last["sentences"] * sentences / speed
        ratios = [ratio(numbers, rounds, _KEY) for rounds in others.values()]
        rows.append([program, f"{speed:.0f}", f"{seconds:.2f}", *ratios])
    head = ["program", "output tokens/s", f"seconds for {sentences} sentences"]
    print_table([*head, "to Marian", "to CTranslate2"], rows)


if __name__ == "__main__":
    main()
