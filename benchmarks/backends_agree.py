"""Do the backends translate alike? One model folder, one text, fresh processes.

    python benchmarks/backends_agree.py MODEL --source FILE [--lines 200]
        [--search greedy --search beam ...]

Translates the lines with each search on every installed backend and prints how many
texts differ from the first backend's. A text may differ only where the scores of both
lie within 1e-4 (of samples: where their draws do, which no score shows); each such line
is listed with that margin. Exits with 1 where one differs by more, or more than 2 in
1000 differ.
"""

import argparse
import importlib.util
import json
import os
import subprocess
import sys

BACKENDS = ("tensorflow", "jax", "torch")
MARGIN = 1e-4
SEARCHES = {
    "greedy": {"beam_size": 1},
    "beam": {"beam_size": 4},
    "rules": {
        "beam_size": 4,
        "no_repeat_ngram_size": 2,
        "repetition_penalty": 1.1,
        "min_length": 9,
        "normalization": "average",
        "coverage_penalty": 0.2,
    },
    "groups": {"beam_size": 4, "num_beam_groups": 2, "diversity_penalty": 0.5},
    "sampling": {"sampling": True, "seed": 1},
    "narrow-sampling": {"sampling": True, "seed": 1, "top_k": 50, "top_p": 0.9},
}

_TRANSLATE = """
import json, sys
import keras_transformer as kt
folder, path, lines, options = json.loads(sys.argv[1])
text = kt.data.read_lines(path)[:lines]
translator = kt.Translator.load(folder)
found = translator.translate(text, return_details=True, **options)
print(json.dumps([[h[0].text, h[0].score] for h in found]))
"""


def translate(backend, *arguments):
    """`[[text, score], ...]` of a fresh process on this backend."""
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    done = subprocess.run(
        [sys.executable, "-c", _TRANSLATE, json.dumps(arguments)],
        env=environment,
        capture_output=True,
        text=True,
    )
    if done.returncode:
        sys.exit(done.stderr)
    return json.loads(done.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model")
    parser.add_argument("--source", required=True)
    parser.add_argument("--lines", type=int, default=200)
    parser.add_argument("--search", action="append", choices=SEARCHES)
    arguments = parser.parse_args()
    backends = [name for name in BACKENDS if importlib.util.find_spec(name)]
    good = True
    for search in arguments.search or ("greedy", "beam"):
        options = SEARCHES[search]
        found = {
            name: translate(
                name, arguments.model, arguments.source, arguments.lines, options
            )
            for name in backends
        }
        first, *others = backends
        for name in others:
            pairs = list(zip(found[first], found[name], strict=True))
            different = [i for i, (a, b) in enumerate(pairs) if a[0] != b[0]]
            print(
                f"{search}: {name} against {first}: {len(different)} of "
                f"{len(pairs)} texts differ"
            )
            for i in different:
                margin = abs(pairs[i][0][1] - pairs[i][1][1])
                good &= margin <= MARGIN or "sampling" in options
                print(f"  line {i + 1}: scores {margin:.1e} apart")
            good &= len(different) <= 0.002 * len(pairs)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
