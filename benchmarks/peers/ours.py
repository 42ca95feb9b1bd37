"""This package, as its users train it."""

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.training import LabelSmoothedCrossEntropy
from peers.keras_fit import fit


def trainer(data, preset, vocabulary_size, bfloat16, jit_compile=None):
    config = TransformerConfig.from_preset(
        preset, vocabulary_size=vocabulary_size, dropout=0.1
    )
    model = Transformer(config, dtype="mixed_bfloat16" if bfloat16 else "float32")
    loss = LabelSmoothedCrossEntropy(0.1)
    rows = []
    for source, target, labels in data:
        weights = (labels != config.pad_id).astype("float32")
        weights /= weights.sum()
        rows.append(({"source": source, "target": target}, labels, weights))
    return fit(model, loss, rows, jit_compile)
