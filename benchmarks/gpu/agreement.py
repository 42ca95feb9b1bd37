"""Numbers of the GPU against those of the CPU, and two equal trainings.

    python -m gpu.agreement [--size base] [--steps 100] [--json FILE]

Run it in the folder of benchmarks. On each backend that is installed, in float32
without TF32 and in bfloat16, two trainings of one seed run on the device, each in a
process of its own: are their weights equal, bit for bit? The weights of the first go to
the device and to the CPU: how far are logits and losses apart, and are the translations
the same? `--deterministic` asks the frameworks for operations that always add in the
same order.

Prints, for each pair of runs, the largest differences: of logits, with the largest
logit beside it; of losses, relative; of translations, how many are the same, and how
far the scores of others lie apart. A text may differ where two hypotheses score alike.
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

from gpu.environments import JAX
from gpu.environments import TORCH
from gpu.environments import installed
from gpu.environments import on_host
from gpu.report import Machine
from gpu.report import print_table
from gpu.report import write_json

_BACKENDS = {"jax": JAX, "torch": TORCH}
_CPU = {"JAX_PLATFORMS": "cpu", "CUDA_VISIBLE_DEVICES": ""}
_NO_TF32 = {"NVIDIA_TF32_OVERRIDE": "0", "JAX_DEFAULT_MATMUL_PRECISION": "highest"}
_DETERMINISTIC = {
    "XLA_FLAGS": "--xla_gpu_deterministic_ops=true",
    "CUBLAS_WORKSPACE_CONFIG": ":4096:8",
}
FULL = {"vocabulary_size": 37_000, "batch_tokens": 2048, "steps": 8, "buckets": 2}
TOY = {"vocabulary_size": 100, "batch_tokens": 100, "steps": 2, "buckets": 1}


def main():
    arguments = parse()
    found = {}
    with tempfile.TemporaryDirectory() as folder, Machine() as machine:
        runs = Runs(arguments, Path(folder))
        for name in arguments.backend or filter(installed, _BACKENDS):
            found[name] = runs.of_backend(name)
    machine.print()
    report(found)
    settings = {**vars(arguments), "json": None}
    head = {"benchmark": "agreement", "settings": settings, "machine": machine.facts}
    write_json(arguments.json, {**head, "backends": found})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("--size", default="base", choices=SIZES)
    parser.add_argument("--steps", type=int, default=100, help="of each training")
    parser.add_argument("--beam", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--deterministic", action="store_true")
    parser.add_argument("--backend", nargs="+", choices=_BACKENDS)
    parser.add_argument("--json", help="file for all numbers")
    return parser.parse_args()


class Runs:
    """The processes of `peers.outputs`, and what they leave in a folder."""

    def __init__(self, arguments, folder):
        self.arguments = arguments
        self.folder = folder
        data = TOY if arguments.size == "toy" else FULL
        self.batches = str(folder / "batches.npz")
        self.model = {
            "preset": arguments.size,
            "vocabulary_size": data["vocabulary_size"],
            "batches": self.batches,
        }
        command = [sys.executable, "-m", "peers.corpus", self.batches, json.dumps(data)]
        subprocess.run(command, env=on_host(), check=True)

    def of_backend(self, name):
        """`{dtype: {"training": ..., what is compared: differences}}`."""
        found = {}
        for dtype in ("float32", "bfloat16"):
            trained = (self.trained(name, dtype, number) for number in (1, 2))
            paths, losses = zip(*trained, strict=True)
            computed = self.computed(name, dtype, "device", paths[0])
            found[dtype] = {
                "training": {**weight_differences(*paths), "losses": losses},
                **{
                    f"CPU, {other}": differences(
                        computed, self.computed(name, other, "cpu", paths[0])
                    )
                    for other in sorted({dtype, "float32"})
                },
            }
        return found

    def trained(self, name, dtype, number):
        """The file of the weights, and the last loss."""
        path = self.folder / f"{name}-{dtype}-{number}.weights.h5"
        options = {
            "weights": str(path),
            "steps": self.arguments.steps,
            "seed": self.arguments.seed,
            "deterministic": self.arguments.deterministic,
        }
        extra = _DETERMINISTIC if self.arguments.deterministic else {}
        output = self.run(name, dtype, "train", options, extra)
        return path, json.loads(output.splitlines()[-1])

    def computed(self, name, dtype, place, weights):
        """The arrays that `peers.outputs` gives, by name."""
        path = self.folder / f"{name}-{dtype}-{place}.npz"
        options = {
            "path": str(path),
            "weights": str(weights),
            "beam_size": self.arguments.beam,
        }
        self.run(name, dtype, "compute", options, _CPU if place == "cpu" else {})
        with np.load(path) as file:
            return dict(file)

    def run(self, name, dtype, task, options, environment):
        options = {**self.model, **options, "bfloat16": dtype == "bfloat16"}
        command = [sys.executable, "-m", "peers.outputs", task, json.dumps(options)]
        return subprocess.run(
            command,
            env=os.environ | _BACKENDS[name] | _NO_TF32 | environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout


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
    rows = []
    for name, by_dtype in found.items():
        for dtype, parts in by_dtype.items():
            for against, row in parts.items():
                if against != "training":
                    rows.append(
                        [
                            f"{name}, {dtype}",
                            against,
                            f"{row['logits']:.1e} of {row['largest_logit']:.3g}",
                            f"{row['losses']:.1e}",
                            f"{row['same_texts']} of {row['texts']}",
                            f"{row['largest_margin']:.1e}",
                        ]
                    )
    head = "device; against; logits; losses; same translations; margin of others"
    print_table(head.split("; "), rows)
    rows = [
        [
            f"{name}, {dtype}",
            "yes" if parts["training"]["equal"] else "no",
            f"{parts['training']['largest_difference']:.1e}",
            " and ".join(f"{loss:.6f}" for loss in parts["training"]["losses"]),
        ]
        for name, by_dtype in found.items()
        for dtype, parts in by_dtype.items()
    ]
    print_table(["two equal trainings", "equal", "weights", "last losses"], rows)


if __name__ == "__main__":
    main()
