"""Does an engine keep its workers busy? Ray Data against processes that share nothing.

    pip install '.[ray]'
    python benchmarks/many_machines.py MODEL TEXT [--lines 16384] [--rounds 3]

The same lines are translated by `tutorials/many_machines/translate_with_ray.py` and by
as many plain processes, each with a `BatchTranslator`, one thread and an equal share of
the lines. Each does it with few lines and with many: the difference is what counts,
since both need time to start. Prints lines a second, the median over rounds, and the
median of the rounds' ratios. Exits with 1 where the two outputs differ or that is below
0.9.
"""

import argparse
import itertools
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

RECIPE = Path(__file__).parents[1] / "tutorials/many_machines/translate_with_ray.py"
_LEAST = 0.9
THREADS = ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("text", type=Path, help="lines; repeated until they are enough")
    parser.add_argument("--lines", type=int, default=16384)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--batch-size", type=int, default=1024, help="lines")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    few = arguments.workers * arguments.batch_size
    if arguments.lines <= few:
        parser.error(f"--lines must be more than workers x batch size, {few}")
    text = arguments.text.read_text(encoding="utf-8").splitlines()
    rates = {"Ray Data": [], "plain processes": []}
    with tempfile.TemporaryDirectory() as folder:
        folder = Path(folder)
        for _ in range(arguments.rounds):
            outputs = []
            for name, run in zip(rates, (with_ray, with_processes), strict=True):
                seconds = []
                for count in (few, arguments.lines):
                    lines = list(itertools.islice(itertools.cycle(text), count))
                    start = time.perf_counter()
                    output = run(arguments, lines, folder)
                    seconds.append(time.perf_counter() - start)
                rates[name].append((arguments.lines - few) / (seconds[1] - seconds[0]))
                outputs.append(output)
            if outputs[0] != outputs[1]:
                sys.exit("the outputs differ")
    for name, found in rates.items():
        print(f"{name}: {statistics.median(found):.1f} lines/s")
    ratios = [a / b for a, b in zip(*rates.values(), strict=True)]
    ratio = statistics.median(ratios)
    print(f"Ray Data to plain processes: {ratio:.2f}")
    return 0 if ratio >= _LEAST else 1


def with_ray(arguments, lines, folder):
    """The translations of the lines, by the recipe."""
    source, output = folder / "source", folder / "output"
    source.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, RECIPE, arguments.model, source, output]
    command += ["--workers", arguments.workers, "--batch-size", arguments.batch_size]
    subprocess.run([*map(str, command)], check=True, stderr=subprocess.DEVNULL)
    return output.read_text(encoding="utf-8").splitlines()


def with_processes(arguments, lines, folder):
    """The same by processes that know nothing of each other."""
    share = -(-len(lines) // arguments.workers)
    parts, processes = [], []
    for worker in range(arguments.workers):
        source, output = folder / f"source_{worker}", folder / f"output_{worker}"
        part = lines[worker * share : (worker + 1) * share]
        source.write_text("".join(f"{line}\n" for line in part), encoding="utf-8")
        command = [sys.executable, "-c", _WORKER, arguments.model, source, output]
        command.append(arguments.batch_size)
        environment = {**os.environ, **dict.fromkeys(THREADS, "1")}
        environment.setdefault("KERAS_BACKEND", "tensorflow")
        processes.append(
            subprocess.Popen(
                [*map(str, command)], env=environment, stderr=subprocess.DEVNULL
            )
        )
        parts.append(output)
    if any([process.wait() for process in processes]):
        sys.exit("a process failed")
    texts = [part.read_text(encoding="utf-8").splitlines() for part in parts]
    return list(itertools.chain(*texts))


_WORKER = """
import sys
from keras_transformer.batch_translator import BatchTranslator

model, source, output, size = *sys.argv[1:4], int(sys.argv[4])
lines = open(source, encoding="utf-8").read().split("\\n")[:-1]
translator = BatchTranslator(model)
with open(output, "w", encoding="utf-8") as file:
    for start in range(0, len(lines), size):
        batch = translator({"source": lines[start : start + size]})
        file.writelines(f"{line}\\n" for line in batch["translation"])
"""


if __name__ == "__main__":
    sys.exit(main())
