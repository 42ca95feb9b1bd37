"""This package, as its users train it and translate with it."""

import contextlib
from pathlib import Path

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.models.weights import assign
from keras_transformer.models.weights import read_arrays
from keras_transformer.training import LabelSmoothedCrossEntropy
from keras_transformer.translation.batch_search import BatchSearch
from keras_transformer.translation.batch_search import Sentence
from peers.batches import SIZES
from peers.device import refuse_processor
from peers.keras_fit import fit

WEIGHTS = "model.weights.h5"


def build(preset, vocabulary_size, dtype="float32"):
    layers, D, F, H = SIZES[preset]
    config = TransformerConfig(
        vocabulary_size=vocabulary_size,
        hidden_dim=D,
        intermediate_dim=F,
        num_heads=H,
        num_encoder_layers=layers,
        num_decoder_layers=layers,
        dropout=0.1,
    )
    return Transformer(config, dtype=dtype)


def trainer(data, mirrored=False, **options):
    """`mirrored`: on all cards, by TensorFlow's MirroredStrategy."""
    with _devices(mirrored):
        return prepare(data, **options)[1]


def _devices(mirrored):
    """The context that a model is built in; refuses a processor beside a card."""
    refuse_processor()
    if mirrored:
        return backends.distributions["mirrored"]("all")
    return contextlib.nullcontext()


def prepare(data, preset, vocabulary_size, bfloat16, jit_compile=None):
    """The model, and its `train(steps)`."""
    model = build(preset, vocabulary_size, "mixed_bfloat16" if bfloat16 else "float32")
    loss = LabelSmoothedCrossEntropy(0.1)
    rows = []
    for source, target, labels in data:
        weights = (labels != model.config.pad_id).astype("float32")
        weights /= weights.sum()
        rows.append(({"source": source, "target": target}, labels, weights))
    return model, fit(model, loss, rows, jit_compile)


def decoder(preset, vocabulary_size, bfloat16, folder, mirrored=False):
    """`Translator` does the same, but for its tokenizers."""
    dtype = "bfloat16" if bfloat16 else "float32"
    with _devices(mirrored):
        model = build(preset, vocabulary_size, dtype)
    weights = Path(folder, WEIGHTS)
    assign(model, read_arrays(weights), weights)
    search = BatchSearch(model)

    def decode(rows, length, beam_size):
        sentences = [Sentence(ids) for ids in rows]
        options = DecodingOptions(
            beam_size=beam_size, min_length=length, max_length=length
        )
        found = search.translate(sentences, options, len(rows))
        return [hypotheses[0].ids for hypotheses in found]

    return decode
