"""Keras layers, each usable alone in any model, and the pure functions below them."""

from keras_transformer.layers import masks
from keras_transformer.layers.attention import additive_attention
from keras_transformer.layers.attention import scaled_dot_product_attention
from keras_transformer.layers.attention_bias import AttentionBias
from keras_transformer.layers.convolutional_gru import ConvolutionalGatedRecurrentUnit
from keras_transformer.layers.decoder_block import DecoderBlock
from keras_transformer.layers.encoder_block import EncoderBlock
from keras_transformer.layers.feed_forward import FeedForward
from keras_transformer.layers.gated_convolution import GatedConvolution
from keras_transformer.layers.memory_hop import MemoryHop
from keras_transformer.layers.multi_head_attention import MultiHeadAttention
from keras_transformer.layers.positional_encoding import LearnedPositionalEmbedding
from keras_transformer.layers.positional_encoding import SinusoidalPositionalEncoding
from keras_transformer.layers.relative_buckets import RelativeBuckets
from keras_transformer.layers.relative_position import RelativePositionalEncoding
from keras_transformer.layers.residual import Residual
from keras_transformer.layers.rotary_position import RotaryPositionalEncoding
from keras_transformer.layers.sentence_embedding import SentenceEmbedding
from keras_transformer.layers.ssru import SSRU
from keras_transformer.layers.token_embedding import TokenEmbedding
from keras_transformer.position_tables import sinusoidal_table

__all__ = [
    "SSRU",
    "AttentionBias",
    "ConvolutionalGatedRecurrentUnit",
    "DecoderBlock",
    "EncoderBlock",
    "FeedForward",
    "GatedConvolution",
    "LearnedPositionalEmbedding",
    "MemoryHop",
    "MultiHeadAttention",
    "RelativeBuckets",
    "RelativePositionalEncoding",
    "Residual",
    "RotaryPositionalEncoding",
    "SentenceEmbedding",
    "SinusoidalPositionalEncoding",
    "TokenEmbedding",
    "additive_attention",
    "masks",
    "scaled_dot_product_attention",
    "sinusoidal_table",
]
