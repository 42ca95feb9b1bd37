"""Numbers of the GPU against those of the CPU, and two equal trainings.

    python -m gpu.agreement [--size base] [--steps 100] [--minutes 10] [--json FILE]
    python -m gpu.agreement --only "JAX, float32"

Run it in the folder of benchmarks. On each backend that is installed, in float32
without TF32 and in bfloat16, two trainings of one seed run on the device, each in a
process of its own: are their weights equal, bit for bit? The weights of the first go to
the device and to the CPU: how far are logits and losses apart, and are the translations
the same? `--deterministic` asks the frameworks for operations that always add in the
same order.

Prints, for each pair of runs, the largest differences: of logits, with the largest
logit beside it; of losses, relative; of translations, how many are the same, and how
far the scores of others lie apart. A text may differ where two hypotheses score alike.
A backend and dtype that does not end in the time is named and left out; with `--json`
a second run on the same machine does what the file lacks.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import h5py
import numpy as np
from peers.batches import SIZES
from turns import Clock
from turns import chosen

from gpu import processes
from gpu.environments import JAX
from gpu.environments import TORCH
from gpu.environments import installed
from gpu.report import Machine
from gpu.report import begun
from gpu.report import print_table
from gpu.report import write_json
from gpu.training import cut

#: `{name: (environment, dtype)}`
PROGRAMS = {
    f"{name}, {dtype}": (environment, dtype)
    for name, environment in (("JAX", JAX), ("PyTorch", TORCH))
    for dtype in ("float32", "bfloat16")
}
_CPU = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
_NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
FULL = {"vocabulary_size": 37_000, "batch_tokens": 2048, "steps": 8, "buckets": 2}
TOY = {"vocabulary_size": 100, "batch_tokens": 100, "steps": 2, "buckets": 1}


def main():
    arguments = parse()
    clock = Clock(arguments.minutes)
    names = ("size", "steps", "beam", "seed", "deterministic")
    settings = {name: getattr(arguments, name) for name in names}
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        head = {
            "benchmark": "agreement",
            "settings": settings,
            "machine": machine.facts,
        }
        found = begun(arguments.json, head).get("runs", {})
        missing = [
            name
            for name in chosen(PROGRAMS, arguments.only)
            if name not in found and installed(PROGRAMS[name][0]["KERAS_BACKEND"])
        ]
        machine.print()
        runs = missing and Runs(settings, Path(folder), clock)
        for name in missing:
            try:
                found[name] = runs.of(*PROGRAMS[name])
                report({name: found[name]})
                write_json(arguments.json, {**head, "runs": found})
            except subprocess.SubprocessError:
                print(f"{name}: did not end, left out", file=sys.stderr)
    machine.print_load()
    report(found)
    if missing:  # else the clocks are those of a machine that did nothing
        write_json(arguments.json, {**head, "runs": found})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--steps", type=int, default=100, help="of each training")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all of it")
    parser.add_argument("--json", help="file of all numbers, and of what is done")
    parser.add_argument("--only", nargs="+", help="parts of the names to run")
    return parser.parse_args()


class Runs:
    """The processes of `peers.outputs`, and what they leave in a folder.

    Args:
        settings: `size`, `steps`, `beam`, `seed`, `deterministic`.
        folder: for what they leave.
        clock: a process that outlasts it ends with `subprocess.TimeoutExpired`.
    """

    def __init__(self, settings, folder, clock):
        self.settings = settings
        self.folder = folder
        self.clock = clock
        data = TOY if settings["size"] == "toy" else FULL
        self.batches = str(folder / "batches.npz")
        self.model = {
            "preset": settings["size"],
            "vocabulary_size": data["vocabulary_size"],
            "batches": self.batches,
        }
        cut(self.batches, data)

    def of(self, backend, dtype):
        """`{"training": ..., what is compared: differences}`.

        Args:
            backend: environment of its processes.
            dtype: float32 or bfloat16, of the trainings and on the device.
        """
        trained = (self.trained(backend, dtype, number) for number in (1, 2))
        paths, losses = zip(*trained, strict=True)
        computed = self.computed(backend, dtype, "device", paths[0])
        return {
            "training": {**weight_differences(*paths), "losses": losses},
            **{
                f"CPU, {other}": differences(
                    computed, self.computed(backend, other, "cpu", paths[0])
                )
                for other in sorted({dtype, "float32"})
            },
        }

    def trained(self, backend, dtype, number):
        """The file of the weights, and the last loss."""
        path = self.folder / f"{number}.weights.h5"
        options = {
            "weights": str(path),
            **{n: self.settings[n] for n in ("steps", "seed", "deterministic")},
        }
        environment = deterministic() if options["deterministic"] else {}
        output = self.run("train", dtype, options, backend | environment)
        return path, json.loads(output.splitlines()[-1])

    def computed(self, backend, dtype, place, weights):
        """The arrays that `peers.outputs` gives, by name."""
        path = self.folder / f"{place}.npz"
        options = {
            "path": str(path),
            "weights": str(weights),
            "beam_size": self.settings["beam"],
        }
        environment = backend | (_CPU if place == "cpu" else {})
        self.run("compute", dtype, options, environment)
        with np.load(path) as file:
            return dict(file)

    def run(self, task, dtype, options, environment):
        options = {**self.model, **options, "bfloat16": dtype == "bfloat16"}
        return processes.output_of(
            "peers.outputs",
            task,
            json.dumps(options),
            environment=_NO_TF32 | environment,
            seconds=self.clock.left(),
        )


def deterministic():
    """The environment in which operations always add in the same order."""
    flags = os.environ.get("XLA_FLAGS", "")
    return {
        "XLA_FLAGS": f"{flags} --xla_gpu_deterministic_ops=true",
        "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
    }


def weight_differences(*paths):
    """Of two equal trainings."""
    apart = []
    with h5py.File(paths[0]) as one, h5py.File(paths[1]) as other:

        def compare(name, values):
            if isinstance(values, h5py.Dataset):
                apart.append(float(np.abs(values[()] - other[name][()]).max()))

        one.visititems(compare)
    return {"equal": not any(apart), "largest_difference": max(apart)}


def differences(found, expected):
    """The largest ones between what two runs computed."""
    logits = np.abs(found["logits"] - expected["logits"]).max()
    losses = np.abs(found["losses"] / expected["losses"] - 1).max()
    texts = [[tuple(row[row != 0]) for row in run["ids"]] for run in (found, expected)]
    other = np.array([one != another for one, another in zip(*texts, strict=True)])
    margins = np.abs(found["scores"] - expected["scores"])[other]
    return {
        "logits": float(logits),
        "largest_logit": float(np.abs(expected["logits"]).max()),
        "losses": float(losses),
        "texts": len(other),
        "same_texts": int((~other).sum()),
        "largest_margin": float(margins.max(initial=0.0)),
    }


def report(found):
    rows = [
        [
            name,
            against,
            f"{row['logits']:.1e} of {row['largest_logit']:.3g}",
            f"{row['losses']:.1e}",
            f"{row['same_texts']} of {row['texts']}",
            f"{row['largest_margin']:.1e}",
        ]
        for name, parts in found.items()
        for against, row in parts.items()
        if against != "training"
    ]
    head = "device; against; logits; losses; same translations; margin of others"
    print_table(head.split("; "), rows)
    rows = [
        [
            name,
            "yes" if parts["training"]["equal"] else "no",
            f"{parts['training']['largest_difference']:.1e}",
            " and ".join(f"{loss:.6f}" for loss in parts["training"]["losses"]),
        ]
        for name, parts in found.items()
    ]
    print_table(["two equal trainings", "equal", "weights", "last losses"], rows)


if __name__ == "__main__":
    main()
