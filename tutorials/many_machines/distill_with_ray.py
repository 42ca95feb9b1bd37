r"""Shares `distill` or `backtranslate` among the machines of a Ray cluster.

    python tutorials/many_machines/distill_with_ray.py --parts 8 \
        distill TEACHER CONFIG.yaml --output FOLDER --beam-size 5

What follows the options is a command of `keras-transformer`. Each part is a process of
its own, `--part 1/8` and so on, and Ray starts as many at once as have the threads.
All paths are such that every machine sees them. A part whose machine is lost, or whose
process is killed, is started again and goes on with the files that are missing; so does
this program, given again. Needs the extra `ray` (`pip install '.[ray]'`). The backend
is that of `KERAS_BACKEND`, or TensorFlow.
"""

import argparse
import os
import subprocess
import sys
from pathlib import Path

try:
    import ray
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}; run pip install 'ray[data]'") from None

ATTEMPTS = 3


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--parts", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each part")
    parser.add_argument("command", choices=("distill", "backtranslate"))
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    if arguments.parts < 1 or arguments.threads < 1:
        parser.error("--parts and --threads are at least 1")
    return arguments


class Killed(Exception):
    """The end of a process by a signal, which another attempt may be spared."""


def run_part(command: list[str], folder: str, part: str) -> str:
    """What a process of `keras-transformer` printed.

    Args:
        command: the arguments of `keras-transformer`.
        folder: where it runs.
        part: the value of `--part`.

    Raises:
        Killed: where a signal ended it.
        RuntimeError: where it failed.
    """
    process = subprocess.run(
        [sys.executable, "-m", "keras_transformer", *command, "--part", part],
        cwd=folder,
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    if process.returncode < 0:
        raise Killed(f"part {part} was ended by signal {-process.returncode}")
    if process.returncode:
        raise RuntimeError(process.stderr)
    return process.stderr


def main() -> None:
    arguments = parse_arguments()
    threads = {
        name: str(arguments.threads)
        for name in (
            "OMP_NUM_THREADS",
            "TF_NUM_INTRAOP_THREADS",
            "TF_NUM_INTEROP_THREADS",
        )
    }
    backend = os.environ.get("KERAS_BACKEND", "tensorflow")
    variables = {"KERAS_BACKEND": backend, **threads}
    ray.init(include_dashboard=False, runtime_env={"env_vars": variables})
    task = ray.remote(
        num_cpus=arguments.threads,
        max_retries=ATTEMPTS - 1,
        retry_exceptions=[Killed],
    )(run_part)
    command = [arguments.command, *arguments.arguments]
    count = arguments.parts
    waiting = [
        task.remote(command, str(Path.cwd()), f"{number}/{count}")
        for number in range(1, count + 1)
    ]
    try:
        while waiting:
            done, waiting = ray.wait(waiting)
            for text in ray.get(done):
                print(text, end="", file=sys.stderr, flush=True)
    except ray.exceptions.RayTaskError as error:
        raise SystemExit(str(error.cause)) from None


if __name__ == "__main__":
    main()
