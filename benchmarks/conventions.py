"""The conventions of five toolkits on one corpus: nll and BLEU of equal sizes.

    python tutorials/configs/prepare.py multi30k
    KERAS_BACKEND=torch python benchmarks/conventions.py [NAME ...]
        [--text FOLDER] [--output FOLDER] [--set KEY=VALUE ...]

Trains `tiny` on Multi30k, English to German, for 2000 steps, once for each name: text,
vocabulary, sizes, batches and seed are the same, and `conventions` decides the rest. A
run that is in FOLDER already goes on where it was. Prints the table of those that are
done. `--set` changes each run: `--set training.precision=mixed_bfloat16`, or one key on
which they differ, such as `--set training.warmup_steps=500`.
"""

import argparse
import json
import sys
from pathlib import Path

import yaml

from keras_transformer.evaluation import evaluate
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.config.conventions import CONVENTIONS
from keras_transformer.training.run import Interrupted

TEXT = Path(__file__).parents[1] / "tutorials" / "configs" / "data" / "multi30k"
ROW = "| {:14} | {:>13} | {:>15} | {:>10} | {:>12} |"


def config_of(name: str, text: Path, output: Path) -> dict[str, object]:
    """The config file of a run; the sizes are those of the recipe `multi30k_en_de`."""

    def pair(part: str, ending: str = "") -> dict[str, str]:
        sides = {"source": "en", "target": "de"}
        return {
            side: str(text.resolve() / f"{part}.{language}{ending}")
            for side, language in sides.items()
        }

    return {
        "conventions": name,
        "model": {"preset": "tiny"},
        "tokenizer": {"vocabulary_size": 6000},
        "data": {
            "train": [pair("train", ".gz")],
            "validation": pair("val"),
            "test": pair("test_2016_flickr"),
            "batch_tokens": 3072,
            "cache": str(output.resolve() / f"encoded-{name}"),
        },
        "training": {"steps": 2000, "validate_every": 1000, "checkpoint_every": 100},
        "output": str(output.resolve() / name),
    }


def trained(name: str, text: Path, output: Path, changes: list[str]) -> Path:
    """The run folder of the conventions of a name, all its steps done."""
    path = output / f"{name}.yaml"
    path.write_text(yaml.safe_dump(config_of(name, text, output)), encoding="utf-8")
    config = load_config(path, changes)
    try:
        train(config)
    except Interrupted as stopped:
        sys.exit(str(stopped))
    return config.output


def row(name: str, text: Path, folder: Path) -> str:
    """Learning rate, validation nll and BLEU of a run that is done."""
    lines = (folder / "logs" / "metrics.jsonl").read_text(encoding="utf-8").splitlines()
    last = [line for line in map(json.loads, lines) if "val_nll" in line][-1]
    hypotheses = (folder / "test.hypotheses.txt").read_text(encoding="utf-8")
    references = (text / "test_2016_flickr.de").read_text(encoding="utf-8")
    cased, uncased = (
        evaluate(
            hypotheses.split("\n")[:-1],
            references.split("\n")[:-1],
            lowercase=lowercase,
            metrics=["bleu"],
        )[0].score
        for lowercase in (False, True)
    )
    rate, nll = f"{last['learning_rate']:.2e}", f"{last['val_nll']:.3f}"
    return ROW.format(name, rate, nll, f"{cased:.1f}", f"{uncased:.1f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", default=list(CONVENTIONS))
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--output", type=Path, default=Path("runs/conventions"))
    parser.add_argument("--set", action="append", default=[], dest="changes")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    text, output = arguments.text, arguments.output
    rows = []
    for name in arguments.names:
        rows.append(row(name, text, trained(name, text, output, arguments.changes)))
        heads = ("learning rate", "validation nll", "BLEU cased", "BLEU uncased")
        print(ROW.format("conventions", *heads))
        print(ROW.format("---", *["---"] * len(heads)))
        print("\n".join(rows), flush=True)


if __name__ == "__main__":
    main()
