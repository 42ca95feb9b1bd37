"""Trains the same batches on several numbers of devices; a test compares the ends.

    python -m tests.training.device_numbers_program KIND PATH NUMBER:PORT ...

The largest number comes first. Where each device is a process, those of a NUMBER meet
at its PORT. Writes PATH-NUMBER.npz.
"""

import functools
import multiprocessing
import os
import sys

import keras
import numpy as np

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.backends.random_seed import set_random_seed
from keras_transformer.data import EncodedPairs
from keras_transformer.data import TokenBatches
from keras_transformer.data import TokenRows
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.training.distribution import open_distribution

STEPS = 8
#: Of three devices, each works its share off in two parts.
MICRO_BATCHES = {3: 2}


def pairs():
    random = np.random.default_rng(7)

    def rows(lengths):
        return TokenRows.from_lists([random.integers(4, 24, n) for n in lengths])

    lengths = random.integers(1, 12, (2, 162))
    return EncodedPairs(*map(rows, lengths))


def train(distribution, micro_batches):
    """Weights and batches of a training: {name: array}."""
    set_random_seed(3)
    batches = TokenBatches(
        pairs(),
        300,
        max_buckets=2,
        rows_multiple_of=distribution.num_replicas * micro_batches,
    )
    config = TransformerConfig.from_preset(
        "tiny",
        vocabulary_size=24,
        hidden_dim=16,
        intermediate_dim=32,
        num_heads=1,  # rows of attention that are no whole words of random bits
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.2,
        attention_dropout=0.1,
    )
    model = Transformer(config)
    model.compile(
        keras.optimizers.Adam(1e-3, beta_2=0.98, epsilon=1e-6, global_clipnorm=1.0),
        LabelSmoothedCrossEntropy(0.1),
    )
    model.micro_batches = micro_batches
    model.fit(
        batches.from_step(0, part=distribution.part),
        steps_per_epoch=STEPS,
        shuffle=False,
        verbose=0,
    )
    weights = {variable.path: backends.to_numpy(variable) for variable in model.weights}
    rows = np.array([rows for rows, _, _ in batches.shapes])
    return {"rows": rows, "batches": len(batches)} | weights


def run(kind, path, number, port, rank=0):
    if rank >= number:
        return
    sizes = {"WORLD_SIZE": number, "LOCAL_WORLD_SIZE": number, "MASTER_PORT": port}
    ranks = {"RANK": rank, "LOCAL_RANK": rank, "MASTER_ADDR": "127.0.0.1"}
    os.environ |= {name: str(value) for name, value in {**sizes, **ranks}.items()}
    if kind == "mirrored":
        import tensorflow

        # What is on another device than it is meant for is then an error, as on GPUs.
        tensorflow.config.set_soft_device_placement(False)
    where = ("none", "all") if number == 1 else (kind, number)
    with open_distribution(*where) as distribution:
        results = train(distribution, MICRO_BATCHES.get(number, 1))
        if distribution.is_chief:
            np.savez(f"{path}-{number}.npz", **results)


def in_processes(*functions):
    """Runs each in a process of its own, which has all that is imported here."""
    start = multiprocessing.get_context("fork").Process
    processes = [start(target=function) for function in functions]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0


def main(kind, path, *meetings):
    for meeting in meetings:
        number, port = map(int, meeting.split(":"))
        one = functools.partial(run, kind, path, number, port)
        if kind == "data_parallel":  # one process may use some of its devices
            one()
        elif kind == "mirrored":  # or has them meet once
            in_processes(one)
        else:
            in_processes(*(functools.partial(one, rank) for rank in range(number)))


if __name__ == "__main__":
    main(*sys.argv[1:])
