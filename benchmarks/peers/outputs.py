"""What a model of this package computes on one device, for `gpu/agreement.py`.

python -m peers.outputs train|compute OPTIONS_AS_JSON, in the folder of benchmarks

`train` writes the weights after a number of steps of plain `fit` and the loss of the
last one. `compute` writes logits, losses and translations of a model with such weights.
"""

import json
import sys

import keras
import numpy as np

from keras_transformer.decoding import DecodingOptions
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import read_arrays
from keras_transformer.models.weights import save_weights
from keras_transformer.training import LabelSmoothedCrossEntropy
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import Sentence
from peers import ours
from peers.batches import PAD
from peers.batches import load

LOGIT_ROWS, TRANSLATED = 4, 32  # of the first batch


def main():
    function = {"train": train, "compute": compute}[sys.argv[1]]
    function(**json.loads(sys.argv[2]))


def train(weights, batches, steps, seed, deterministic, **options):
    """Writes `weights`."""
    keras.utils.set_random_seed(seed)
    if deterministic and keras.backend.backend() == "torch":
        import torch

        torch.use_deterministic_algorithms(True)
    model, train = ours.prepare(load(batches), **options)
    print(json.dumps(float(train(steps))))
    save_weights(model, weights)


def compute(path, weights, batches, preset, vocabulary_size, bfloat16, beam_size):
    """Writes `path`: arrays by names."""
    dtype = "mixed_bfloat16" if bfloat16 else "float32"
    model = ours.build(preset, vocabulary_size, dtype)
    assign(model, read_arrays(weights), weights)
    model.compile(loss=LabelSmoothedCrossEntropy(0.1))
    data = load(batches)
    losses = [
        model.evaluate(
            {"source": source, "target": target}, labels, batch_size=10**6, verbose=0
        )
        for source, target, labels in data
    ]
    source, target, _ = data[0]
    inputs = {"source": source[:LOGIT_ROWS], "target": target[:LOGIT_ROWS]}
    logits = keras.ops.convert_to_numpy(model(inputs))
    mask = inputs["target"] != PAD
    texts = translations(model, source[:TRANSLATED], beam_size)
    ids = np.full((len(texts), max(len(text.ids) for text in texts)), PAD)
    for row, text in zip(ids, texts, strict=True):
        row[: len(text.ids)] = text.ids
    np.savez(
        path,
        logits=logits[mask],
        losses=losses,
        ids=ids,
        scores=[text.score for text in texts],
    )


def translations(model, source, beam_size):
    """The best one of each row that is not empty."""
    rows = [ids[ids != PAD].tolist() for ids in source]
    sentences = [Sentence(ids) for ids in rows]
    options = DecodingOptions(beam_size=beam_size)
    found = BatchSearch(model).translate(sentences, options, len(sentences))
    return [hypotheses[0] for hypotheses in found]


if __name__ == "__main__":
    main()
