"""Translates a file with Ray Data: on all cores of this machine, or on a cluster.

    python tutorials/many_machines/translate_with_ray.py MODEL INPUT OUTPUT --workers 2

MODEL and INPUT are paths that every machine sees. Each worker keeps one model. A worker
that dies is started again, and Ray gives it the batches that it had not returned: the
output has each line once, in its order. Needs the extra `ray` (`pip install '.[ray]'`).
The backend is that of `KERAS_BACKEND`, or TensorFlow.
"""

import argparse
import os
from pathlib import Path

try:
    import ray
except ModuleNotFoundError as error:
    raise SystemExit(f"{error}; run pip install 'ray[data]'") from None

from keras_transformer.batch_translator import BatchTranslator
from keras_transformer.cli import reading
from keras_transformer.cli import writing


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("model", type=Path, help="a model folder")
    parser.add_argument("input", type=Path, help="text, one sentence a line")
    parser.add_argument("output", type=Path, help="its translation, line by line")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of each worker")
    parser.add_argument("--batch-size", type=int, default=1024, help="lines")
    parser.add_argument(
        "--long-lines",
        choices=("error", "truncate", "split"),
        default="split",
        help="what happens to a line that is too long for the model",
    )
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    # The variables reach every worker; they are read before the backend loads.
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
    ray.data.DataContext.get_current().execution_options.preserve_order = True
    with reading.opened(arguments.input) as file:
        lines = list(reading.decoded(file, arguments.input))
    rows = ray.data.from_items(
        [{"source": line} for line in lines],
        # Each is one unit of work: small enough for all workers to end together.
        override_num_blocks=max(1, -(-len(lines) // arguments.batch_size)),
    ).map_batches(
        BatchTranslator,
        fn_constructor_kwargs={
            "model_folder": str(arguments.model.resolve()),
            "long_lines": arguments.long_lines,
        },
        batch_size=arguments.batch_size,
        num_cpus=arguments.threads,
        # Work waits for the next free worker: with more in flight, the first that is
        # ready takes what the others could do.
        compute=ray.data.ActorPoolStrategy(
            size=arguments.workers, max_tasks_in_flight_per_actor=1
        ),
    )
    with writing.writer(arguments.output) as write:
        for row in rows.iter_rows():
            write(f"{row['translation']}\n")


if __name__ == "__main__":
    main()
