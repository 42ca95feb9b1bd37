"""What README's first command makes, trained again and again: BLEU and first sentences.

    python benchmarks/default_model.py [--backends tensorflow jax torch] [--seeds 1 2]
        [--output FOLDER]

Each run is `keras-transformer train` in a process of its own, with another seed on each
backend. Prints a row a run: minutes of training, BLEU on the test part of the
phrasebook, and how many of its hundred hand-written sentences come out as one of the
translations that are accepted; then the means. A run that is in FOLDER already goes on
where it was, or is only asked again.
"""

import argparse
import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

BACKENDS = ("tensorflow", "jax", "torch")
COMMAND = [sys.executable, "-m", "keras_transformer.cli.main"]


def trained(folder: Path, backend: str, seed: int) -> tuple[float, float]:
    """Minutes of training and test BLEU, of the run in a folder."""
    log = folder.with_suffix(".log")
    settings = ["--set", f"output={folder}", "--set", f"training.seed={seed}"]
    if not (folder / "averaged").exists():
        with log.open("a", encoding="utf-8") as file:
            subprocess.run(
                [*COMMAND, "train", *settings],
                env={**os.environ, "KERAS_BACKEND": backend},
                stdout=file,
                stderr=subprocess.STDOUT,
                check=True,
            )
    text = log.read_text(encoding="utf-8")
    minutes = sum(map(float, re.findall(r"steps in ([\d.]+) minutes", text)))
    return minutes, float(re.findall(r"test BLEU = ([\d.]+)", text)[-1])


def right(folder: Path, backend: str) -> int:
    """How many of the hundred sentences are translated in an accepted way."""
    from keras_transformer.data.phrasebook import everyday

    trial = everyday.trial()
    sources = "".join(f"{row.english}\n" for row in trial)
    done = subprocess.run(
        [*COMMAND, "translate", str(folder / "averaged")],
        env={**os.environ, "KERAS_BACKEND": backend},
        input=sources,
        stdout=subprocess.PIPE,
        encoding="utf-8",
        check=True,
    )
    translations = done.stdout.splitlines()
    return sum(
        translation in row.german
        for translation, row in zip(translations, trial, strict=True)
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--backends", nargs="+", choices=BACKENDS, default=BACKENDS)
    parser.add_argument("--seeds", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--output", type=Path, default=Path("runs/default_model"))
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    rows = []
    for seed, backend in itertools.product(arguments.seeds, arguments.backends):
        folder = arguments.output / f"{backend}-{seed}"
        minutes, bleu = trained(folder, backend, seed)
        rows.append((minutes, bleu, right(folder, backend)))
        print(f"{backend:12}seed {seed}  " + _cells(rows[-1]), flush=True)
    means = [sum(column) / len(rows) for column in zip(*rows, strict=True)]
    print(f"{'mean of':12}{len(rows)} runs  " + _cells(means))


def _cells(row) -> str:
    minutes, bleu, count = row
    return f"{minutes:6.1f} minutes  BLEU {bleu:5.1f}  {count:5.1f} of 100"


if __name__ == "__main__":
    main()
