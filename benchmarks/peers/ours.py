"""This package, as its users train it."""

import keras

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.training import LabelSmoothedCrossEntropy
from peers.keras_fit import fit


def trainer(data, preset, vocabulary_size, bfloat16, jit_compile=None):
    config = TransformerConfig.from_preset(
        preset, vocabulary_size=vocabulary_size, dropout=0.1
    )
    model = Transformer(config, dtype="mixed_bfloat16" if bfloat16 else "float32")
    if jit_compile is None:
        jit_compile = keras.backend.backend() == "jax"
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3, beta_2=0.98, epsilon=1e-9),
        loss=LabelSmoothedCrossEntropy(0.1),
        jit_compile=jit_compile,
    )
    rows = []
    for source, target, labels in data:
        weights = (labels != config.pad_id).astype("float32")
        weights /= weights.sum()
        rows.append(({"source": source, "target": target}, labels, weights))
    return fit(model, rows)
