"""The model of `imported_speed.py` and `cold.py`: a MarianMT folder of random weights.

python -m peers.imported_folder FOLDER LAYERS DIM VOCABULARY_SIZE [INNER HEADS], in the
folder of benchmarks

Writes `marian`, the folder; `ours`, what an import makes of it; and, where it is
installed, `ctranslate2`, an export of that.
"""

import importlib.util
import json
import sys
import warnings
from pathlib import Path

import keras

import keras_transformer as kt
from keras_transformer.config.transformers_layout import OWN_KEY
from keras_transformer.data import phrasebook
from keras_transformer.data.foreign_pieces import with_pieces

#: That the tokenizer uses: the phrasebook has no words for more.
PIECES = 4000


def main():
    folder = Path(sys.argv[1])
    layers, dim, vocabulary_size, *others = map(int, sys.argv[2:])
    inner, heads = others or (4 * dim, 8)
    warnings.simplefilter("ignore", UserWarning)  # of its search, which is not used
    keras.utils.set_random_seed(1)
    english, german = phrasebook.load("en", "de", "train")
    size = min(PIECES, vocabulary_size)
    tokenizer = kt.data.Tokenizer.train(english + german, size)
    pieces = tokenizer.pieces(range(size))
    pieces += [f"unused{number}" for number in range(vocabulary_size - size)]
    tokenizer = kt.data.Tokenizer(with_pieces(tokenizer.model, pieces))
    model = kt.Transformer(
        kt.TransformerConfig(
            vocabulary_size=vocabulary_size,
            hidden_dim=dim,
            intermediate_dim=inner,
            num_heads=heads,
            num_encoder_layers=layers,
            num_decoder_layers=layers,
            activation="swish",
            use_bias=True,
            output_bias=True,
            position="sinusoidal_halves",
            max_sequence_length=512,
            layer_norm_epsilon=1e-5,
        )
    )
    kt.export.transformers.export(kt.Translator(model, tokenizer), folder / "marian")
    # As a stranger's model: without our own config.
    path = folder / "marian/config.json"
    config = json.loads(path.read_text(encoding="utf-8"))
    del config[OWN_KEY]
    path.write_text(json.dumps(config), encoding="utf-8")
    print(kt.importing.convert(folder / "marian", folder / "ours"))
    if importlib.util.find_spec("ctranslate2"):
        translator = kt.Translator.load(folder / "ours")
        kt.export.ctranslate2.export(translator, folder / "ctranslate2")


if __name__ == "__main__":
    main()
