"""KerasHub's layers, put together as its translation example has them, with masks."""

import keras
import keras_hub

from peers.batches import PAD
from peers.batches import SIZES
from peers.keras_fit import fit


def trainer(data, preset, vocabulary_size, bfloat16, jit_compile=None):
    keras.config.set_dtype_policy("mixed_bfloat16" if bfloat16 else "float32")
    model = build(preset, vocabulary_size)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    rows = []
    for source, target, labels in data:
        weights = (labels != PAD).astype("float32")
        rows.append(({"source": source, "target": target}, labels, weights))
    return fit(model, loss, rows, jit_compile)


def build(preset, vocabulary_size, dropout=0.1):
    layers, D, F, H = SIZES[preset]
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embedding = keras_hub.layers.ReversibleEmbedding(
        vocabulary_size, D, mask_zero=True, tie_weights=True
    )
    positions = keras_hub.layers.SinePositionEncoding()

    def embed(ids):
        vectors = embedding(ids)
        hidden = vectors * D**0.5 + positions(vectors)
        return keras.layers.Dropout(dropout)(hidden)

    source_mask = keras.ops.not_equal(source, PAD)
    target_mask = keras.ops.not_equal(target, PAD)
    memory = embed(source)
    for _ in range(layers):
        block = keras_hub.layers.TransformerEncoder(F, H, dropout=dropout)
        memory = block(memory, padding_mask=source_mask)
    hidden = embed(target)
    for _ in range(layers):
        block = keras_hub.layers.TransformerDecoder(F, H, dropout=dropout)
        hidden = block(
            hidden,
            memory,
            decoder_padding_mask=target_mask,
            encoder_padding_mask=source_mask,
        )
    logits = keras.layers.Activation("linear", dtype="float32")(
        embedding(hidden, reverse=True)
    )
    return keras.Model({"source": source, "target": target}, logits)
