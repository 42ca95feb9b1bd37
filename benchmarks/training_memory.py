"""What a training step holds at its peak: the fused loss against two that have logits.

    python benchmarks/training_memory.py [--preset base] [--vocabulary-size 37000]

One optimizer step of plain `fit` on about 4096 target tokens, with Adam, dropout 0.1
and float32, in a process of its own for each backend and formulation, with the memory
allocator that `keras-transformer train` takes. "Closed form" has the same loss on
logits B x T x V, because of a metric that asks for logits; "Keras" is
`keras.losses.CategoricalCrossentropy(label_smoothing=0.1)`, which takes one-hot labels.
Prints MiB: the growth of the peak over the model and its optimizer, and the whole
process; and what share the fused loss has of the others' growth.
"""

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

from turns import machine

from keras_transformer.cli import allocator

BACKENDS = {"tensorflow": "TensorFlow", "jax": "JAX", "torch": "PyTorch"}
LOSSES = ("fused", "closed form", "Keras")


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n\n")[0])
    sizes = ["toy", "tiny", "base", "big"]
    parser.add_argument("--preset", default="base", choices=sizes)
    parser.add_argument("--vocabulary-size", type=int, default=37_000)
    parser.add_argument("--backends", nargs="+", default=list(BACKENDS))
    arguments = parser.parse_args()
    print(machine())
    print("\n| backend | loss | growth | process | fused to it |")
    print("|---|---|---|---|---|")
    for backend in arguments.backends:
        found = {loss: measure(arguments, backend, loss) for loss in LOSSES}
        for loss, memory in found.items():
            share = found["fused"]["growth"] / memory["growth"]
            print(
                f"| {BACKENDS[backend]} | {loss} | {memory['growth']:.0f} "
                f"| {memory['peak']:.0f} | {share:.2f} |",
                flush=True,
            )


def measure(arguments, backend, loss):
    """`{"growth", "peak"}` of one step in MiB."""
    job = [arguments.preset, arguments.vocabulary_size, loss]
    output = subprocess.run(
        [sys.executable, "-c", _STEP, json.dumps(job)],
        cwd=Path(__file__).parent,
        env={
            **os.environ,
            **allocator.settings(),
            "KERAS_BACKEND": backend,
            "TF_CPP_MIN_LOG_LEVEL": "3",
        },
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    ).stdout
    return json.loads(output.splitlines()[-1])


_STEP = """
import json
import sys

import keras
from keras_transformer import backends
from keras_transformer.training import LabelSmoothedCrossEntropy
from peers import ours
from peers.batches import batches

preset, vocabulary_size, kind = json.loads(sys.argv[1])
model = ours.build(preset, vocabulary_size)


def mean_logit(labels, logits):
    return keras.ops.mean(logits, axis=-1)


def one_hot_cross_entropy(labels, logits):
    return keras.losses.categorical_crossentropy(
        keras.ops.one_hot(labels, vocabulary_size),
        logits,
        from_logits=True,
        label_smoothing=0.1,
    )


closed_form = LabelSmoothedCrossEntropy(0.1)
model.compile(
    optimizer="adam",
    loss=one_hot_cross_entropy if kind == "Keras" else closed_form,
    metrics=[mean_logit] if kind == "closed form" else [],
)
source, target, labels = batches(vocabulary_size)[0]
inputs = {"source": source, "target": target}


def fit(rows, length):
    model.fit(
        {name: ids[:rows, :length] for name, ids in inputs.items()},
        labels[:rows, :length],
        batch_size=rows,
        verbose=0,
    )


fit(1, 2)  # libraries, optimizer and metrics are there before memory is measured
before = backends.peak_memory(lambda: None)
peak = backends.peak_memory(lambda: fit(*labels.shape))
print(json.dumps({"growth": (peak - before) / 2**20, "peak": peak / 2**20}))
"""


if __name__ == "__main__":
    main()
