"""Scores of a recipe over seeds, or over a grid of settings, on one GPU.

    python -m gpu.quality ../tutorials/configs/multi30k_tok_en_de.yaml --seeds 1 2 3 4 5
    python -m gpu.quality CONFIG.yaml --at-once 4 --grid model.dropout=0.2,0.3,0.4
        model.attention_dropout=0,0.1 data.bpe_dropout=0,0.1

Run it in the folder of benchmarks, on the backend of KERAS_BACKEND. Each run is the
command `keras-transformer train`, in a process of its own, several at once where the
card has room. When the time is over the runs are told to stop; each writes a
checkpoint, and the same command goes on from there. Run folders and logs are below
`--output`; so is, by default, the JSON.

Prints, of each run: steps done, the best BLEU on the validation text, and of runs that
have ended the scores of the test text; then, over the seeds of one setting, means and
standard deviations, with sacreBLEU's signatures. Settings are to be chosen by the
validation text: the best comes first.
"""

import argparse
import itertools
import json
import os
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from turns import Clock

from gpu.environments import backend
from gpu.environments import caches
from gpu.report import Machine
from gpu.report import print_table
from gpu.report import write_json

_TRAIN = "from keras_transformer.cli.main import main; main()"
_STOPPING = 60  # seconds for the last checkpoints
_WAITING = 1.0  # seconds between two looks at the runs
_VALIDATION = "validation BLEU"


def main():
    arguments = parse()
    clock = Clock(arguments.minutes)
    output = Path(arguments.output)
    combinations = grid(arguments.grid)
    check(arguments.config, combinations)
    runs = [
        Run(arguments.config, output, settings, seed)
        for settings in combinations
        for seed in arguments.seeds
    ]
    with Machine() as machine:
        train(runs, arguments, clock)
    machine.print()
    machine.print_load()
    found = [run.found() for run in runs]
    report(found)
    head = {"benchmark": "quality", "config": arguments.config}
    path = arguments.json or output / "quality.json"
    write_json(path, {**head, "machine": machine.facts, "runs": found})


def parse():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("config", help="YAML file of a recipe")
    parser.add_argument("--seeds", nargs="+", type=int, default=[1])
    parser.add_argument("--grid", nargs="+", metavar="KEY=A,B", default=[])
    parser.add_argument("--output", default="runs/quality", help="folder of the runs")
    parser.add_argument("--at-once", type=int, default=1, help="processes")
    parser.add_argument("--minutes", type=float, default=9.5, help="for all of it")
    parser.add_argument("--cache", help="folder where compilers keep what they make")
    parser.add_argument("--json", help="file for all numbers")
    return parser.parse_args()


def grid(axes):
    """All combinations of `["key=a,b", ...]`, each `["key=a", ...]`."""
    values = []
    for axis in axes:
        key, equals, found = axis.partition("=")
        if not (key and equals and found):
            sys.exit(f"--grid takes KEY=A,B, not {axis!r}")
        values.append([f"{key}={value}" for value in found.split(",")])
    return [list(settings) for settings in itertools.product(*values)]


def check(config, combinations):
    """Ends the program where a setting or a text to be scored is not right.

    Each training would say so itself, but in its log, and after those before it.
    """
    from keras_transformer.errors import InputError
    from keras_transformer.training.config import load_config
    from keras_transformer.training.corpora import Corpora

    try:
        for settings in combinations:
            Corpora(load_config(config, settings).data)
    except InputError as error:
        sys.exit(f"error: {error}")


class Run:
    """One training: its folder, and the process that works on it.

    Args:
        config: path of the recipe.
        output: folder of all runs.
        settings: `["key=value", ...]` instead of the recipe's.
        seed: of weights, order and dropout.
    """

    def __init__(self, config, output, settings, seed):
        self.config = config
        self.settings = settings
        self.seed = seed
        name = "-".join([Path(config).stem, *settings, f"seed={seed}"])
        self.folder = output / name.replace("/", "_")
        self.log = self.folder.with_name(f"{self.folder.name}.log")
        self.process = None

    @property
    def command(self):
        """The words behind `keras-transformer`."""
        settings = [
            *self.settings,
            f"training.seed={self.seed}",
            f"output={self.folder}",
        ]
        options = [word for setting in settings for word in ("--set", setting)]
        return ["train", str(self.config), *options]

    def start(self, environment):
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("a", encoding="utf-8") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-c", _TRAIN, *self.command],
                env=os.environ | environment,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def ended(self):
        """Whether nothing is left to do: the model of the last step is there."""
        return (self.folder / "averaged" / "config.json").exists()

    def found(self):
        """What the run folder says of it."""
        return {
            "settings": self.settings,
            "seed": self.seed,
            "ended": self.ended,
            **_progress(self.folder / "logs" / "metrics.jsonl"),
            "test": _test(self.folder) if self.ended else {},
        }


def train(runs, arguments, clock):
    """Trains what has not ended, `at_once` at a time, until the time is over."""
    environment = {
        "KERAS_BACKEND": backend(),
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        **caches(arguments.cache),
    }
    waiting, working = [run for run in runs if not run.ended], []
    while (waiting or working) and clock.lasts(_STOPPING):
        while waiting and len(working) < arguments.at_once:
            run = waiting.pop(0)
            run.start(environment)
            working.append(run)
        time.sleep(_WAITING)
        for run in [run for run in working if run.process.poll() is not None]:
            working.remove(run)
            if run.process.returncode:
                print(f"failed: see {run.log}", file=sys.stderr)
    for run in working:
        run.process.send_signal(signal.SIGTERM)
    for run in working:
        try:
            run.process.wait(clock.left())
        except subprocess.TimeoutExpired:
            run.process.kill()  # what its last checkpoint does not hold is lost
            run.process.wait()


def _progress(path):
    """Steps done and the best validation BLEU of `metrics.jsonl`."""
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    rows = [json.loads(line) for line in lines]
    scores = [row["val_bleu"] for row in rows if "val_bleu" in row]
    return {
        "step": rows[-1]["step"] if rows else 0,
        "best_validation_bleu": max(scores, default=None),
    }


def _test(folder):
    """`{metric: [score, signature]}` of the hypotheses that the run has left."""
    from keras_transformer.data import read_lines
    from keras_transformer.evaluation import evaluate
    from keras_transformer.training.config import load_config
    from keras_transformer.training.corpora import Corpora

    path = folder / "test.hypotheses.txt"
    if not path.exists():
        return {}
    config = load_config(folder / "config.yaml")
    references = Corpora(config.data).test.target
    options = config.evaluation.model_dump(exclude={"metrics"})
    scores = evaluate(read_lines(path), references, **options)
    return {score.name: [score.score, score.signature] for score in scores}


def report(found):
    rows = []
    for run in found:
        best = run["best_validation_bleu"]
        rows.append(
            [
                " ".join(run["settings"]) or "as it is",
                str(run["seed"]),
                f"{run['step']}" + ("" if run["ended"] else ", to be continued"),
                "-" if best is None else f"{best:.2f}",
                ", ".join(f"{name} {s:.2f}" for name, (s, _) in run["test"].items()),
            ]
        )
    print_table(["settings", "seed", "steps", _VALIDATION, "test"], rows)
    print_table(["settings", "ended", "score", "mean ± deviation"], summary(found))
    signatures = {text for run in found for _, text in run["test"].values()}
    for text in sorted(signatures):
        print(f"\n{text}")


def summary(found):
    """Rows of means over the seeds that have ended, the best validation first."""
    by_settings = {}
    for run in found:
        if run["ended"]:
            by_settings.setdefault(" ".join(run["settings"]), []).append(run)
    tables = []
    for settings, runs in by_settings.items():
        scores = {_VALIDATION: [run["best_validation_bleu"] for run in runs]}
        for name in runs[0]["test"]:
            scores[f"test {name}"] = [run["test"][name][0] for run in runs]
        known = {name: s for name, s in scores.items() if None not in s}
        tables.append((settings or "as it is", len(runs), known))
    tables.sort(key=lambda table: -statistics.mean(table[2].get(_VALIDATION, [0.0])))
    return [
        [settings, str(count), name, _spread(values)]
        for settings, count, scores in tables
        for name, values in scores.items()
    ]


def _spread(values):
    mean = f"{statistics.mean(values):.2f}"
    return f"{mean} ± {statistics.stdev(values):.2f}" if len(values) > 1 else mean


if __name__ == "__main__":
    main()
