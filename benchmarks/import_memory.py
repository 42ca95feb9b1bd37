"""Memory that loading a model folder takes, beside the size of its weights.

    KERAS_BACKEND=torch python benchmarks/import_memory.py [--vocabulary 256206]

Writes a folder of random weights with the sizes of NLLB's 600 million, and prints the
peak of the process above that of one with its backend imported, as a ratio to the
weights. Linux only.
"""

import argparse
import json
import tempfile
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer import model_folder
from keras_transformer.backends import host_memory
from keras_transformer.files.digest import sha256_of
from keras_transformer.layers import initial_values
from keras_transformer.models.kinds import weight_shapes
from keras_transformer.models.weights import write_arrays

WEIGHTS = "model.weights.h5"


class Random(dict):
    """Random arrays of `{path: shape}`, each made when it is asked for."""

    def __getitem__(self, name):
        random = np.random.default_rng(len(name))
        return random.random(super().__getitem__(name), np.float32) - 0.5


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--vocabulary", type=int, default=256_206)
    parser.add_argument("--dim", type=int, default=1024)
    parser.add_argument("--layers", type=int, default=12)
    options = parser.parse_args()
    config = kt.TransformerConfig(
        vocabulary_size=options.vocabulary,
        hidden_dim=options.dim,
        intermediate_dim=4 * options.dim,
        num_heads=16,
        num_encoder_layers=options.layers,
        num_decoder_layers=options.layers,
        tie_embeddings="all",
    )
    size = 4 * config.num_weights
    keras.ops.convert_to_numpy(keras.ops.ones((64, 64)) @ keras.ops.ones((64, 64)))
    begin = host_memory.peak_memory(lambda: None)

    def report(what, function):
        peak = (host_memory.peak_memory(function) - begin) / size
        bound = 1.2 + 2**29 / size
        print(f"{what}: {peak:.2f} times the weights; at most {bound:.2f}", flush=True)

    print(f"{keras.backend.backend()}: {size / 1e9:.2f} GB of weights", flush=True)
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        arrays = Random(weight_shapes(config))
        report("writing", lambda: write_arrays(arrays, folder / WEIGHTS))
        facts = {"format_version": 1, "weights_sha256": sha256_of(folder / WEIGHTS)}
        (folder / "config.json").write_text(json.dumps(facts))

        def load():
            with initial_values.left_out():
                model = kt.Transformer(config)
            model_folder.load_weights(folder, model)

        report("loading", load)


if __name__ == "__main__":
    main()
