"""Tests that Keras finds each class under the module that saved files name."""

import json

import pytest

pytestmark = pytest.mark.one_backend

#: Module that `.keras` files hold -> classes that are looked up in it.
MODULES = {
    "layers.attention_bias": "AttentionBias",
    "layers.convolutional_gru": "ConvolutionalGatedRecurrentUnit",
    "layers.decoder_block": "DecoderBlock",
    "layers.dropout": "Dropout",
    "layers.encoder_block": "EncoderBlock",
    "layers.feed_forward": "FeedForward",
    "layers.gated_convolution": "GatedConvolution",
    "layers.memory_hop": "MemoryHop",
    "layers.multi_head_attention": "MultiHeadAttention",
    "layers.positional_encoding": """
        LearnedPositionalEmbedding SinusoidalPositionalEncoding
    """,
    "layers.relative_buckets": "RelativeBuckets",
    "layers.residual": "Residual",
    "layers.rotary_position": "RotaryPositionalEncoding",
    "layers.sentence_embedding": "SentenceEmbedding",
    "layers.token_embedding": "TokenEmbedding",
    "losses": "LabelSmoothedCrossEntropy",
    "metrics": "GradientNorm NegativeLogLikelihood Perplexity TokenAccuracy",
    "models.convolutional": "ConvolutionalModel",
    "models.neural_gpu": "NeuralGPU",
    "models.memory_network": "MemoryNetwork",
    "models.recurrent": "RecurrentModel",
    "models.transformer": "Transformer",
    "training.schedules": "InverseSquareRoot",
}


def test_a_process_that_imported_nothing_finds_the_classes_of_saved_files(run_python):
    """As Keras does: it imports the module and looks the name up in what it holds."""
    names = {f"keras_transformer.{m}": text.split() for m, text in MODULES.items()}
    said = run_python(
        f"""
import importlib, json, keras
classes = {{}}
for module, names in {names!r}.items():
    for name in names:
        value = vars(importlib.import_module(module)).get(name)
        classes[name] = keras.saving.get_registered_name(value)
print(json.dumps(classes))
"""
    )
    assert json.loads(said.splitlines()[-1]) == {
        name: f"keras_transformer>{name}" for group in names.values() for name in group
    }
