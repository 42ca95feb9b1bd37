"""Random weights for the programs of `decoding_speed.py` that share them.

python -m peers.random_model FOLDER PRESET VOCABULARY_SIZE, in the folder of benchmarks

Writes them as this package has them and, where it is installed, as CTranslate2 has
them, by the package's own export.
"""

import importlib.util
import sys
from pathlib import Path

import keras

from keras_transformer.models.weights import save_weights
from keras_transformer.models.weights import weight_values
from peers.ours import WEIGHTS
from peers.ours import build


def main():
    folder, preset, vocabulary_size = sys.argv[1:]
    keras.utils.set_random_seed(1)
    model = build(preset, int(vocabulary_size))
    save_weights(model, Path(folder, WEIGHTS))
    if importlib.util.find_spec("ctranslate2"):
        from keras_transformer.export.ctranslate2_spec import specification

        pieces = [str(number) for number in range(int(vocabulary_size))]
        # None of them is text; 3 is the unknown token of tokenizers trained here.
        spec = specification(model.config, weight_values(model), pieces, pieces, 3)
        spec.optimize()
        spec.save(folder)


if __name__ == "__main__":
    main()
