"""Translates a file with Spark: on the cores of this machine, or on a cluster.

    python tutorials/many_machines/translate_with_spark.py MODEL INPUT OUTPUT

MODEL and INPUT are paths that every machine sees. Each process keeps one model. A task
that dies is run again: the output has each line once, in its order. Needs
`pip install pyspark pandas pyarrow` and Java. The backend is that of
`KERAS_BACKEND`, or TensorFlow.
"""

import argparse
import os
import sys
from pathlib import Path

from pyspark.ml.functions import predict_batch_udf
from pyspark.sql import SparkSession
from pyspark.sql.types import StringType

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


def session(arguments: argparse.Namespace) -> SparkSession:
    """Spark on this machine, unless spark-submit names another master."""
    # Processes of Python inherit them; they are read before the backend loads.
    variables = {"KERAS_BACKEND": os.environ.get("KERAS_BACKEND", "tensorflow")}
    for name in ("OMP_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "TF_NUM_INTEROP_THREADS"):
        variables[name] = str(arguments.threads)
    os.environ.update(variables)
    builder = SparkSession.builder.appName("keras-transformer")
    if "spark.master" not in os.environ.get("PYSPARK_SUBMIT_ARGS", ""):
        builder = builder.master(f"local[{arguments.workers}]")
        # Spark would take the first python3 of PATH, which may know no keras.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    for name, value in variables.items():
        builder = builder.config(f"spark.executorEnv.{name}", value)
    size = str(arguments.batch_size)
    builder = builder.config("spark.sql.execution.arrow.maxRecordsPerBatch", size)
    return builder.getOrCreate()


def main() -> None:
    arguments = parse_arguments()
    spark = session(arguments)
    with reading.opened(arguments.input) as file:
        lines = list(reading.decoded(file, arguments.input))
    translator = BatchTranslator(
        arguments.model.resolve(), long_lines=arguments.long_lines
    )
    translate = predict_batch_udf(
        translator.make_predict_function,
        return_type=StringType(),
        batch_size=arguments.batch_size,
    )
    parts = max(1, -(-len(lines) // arguments.batch_size))
    rows = spark.sparkContext.parallelize(list(enumerate(lines)), parts)
    frame = rows.toDF("line: long, source: string")
    frame = frame.withColumn("translation", translate("source")).orderBy("line")
    with writing.writer(arguments.output) as write:
        for row in frame.select("translation").toLocalIterator():
            write(f"{row['translation']}\n")
    spark.stop()


if __name__ == "__main__":
    main()
