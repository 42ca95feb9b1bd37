"""Layers that several kinds of models share, built from their configs.

B batch, S source positions, D hidden_dim, V vocabulary.
"""

from __future__ import annotations

from typing import Any

from keras import ops

from keras_transformer.config import ConvolutionalConfig
from keras_transformer.config import RecurrentConfig
from keras_transformer.config import TranslationConfig
from keras_transformer.layers import MultiHeadAttention
from keras_transformer.layers import Residual
from keras_transformer.layers import TokenEmbedding
from keras_transformer.layers import masks
from keras_transformer.tensors import Tensor


def embeddings(config: TranslationConfig, policy: Any) -> dict[str, Any]:
    """`source_embedding`, `target_embedding` and `output_embedding`, by name.

    One, two or three matrices, as the config ties them.

    Args:
        config: the config of any kind of model.
        policy: the dtype policy.

    Returns:
        Layers that are built: matrices (V, D); tied ones are the same layer.
    """

    def embedding(name: str, vocabulary_size: int, use_bias: bool = False) -> Any:
        layer = TokenEmbedding(
            vocabulary_size,
            config.hidden_dim,
            scale=config.scale_embeddings,
            use_bias=use_bias,
            dtype=policy,
            name=name,
        )
        layer.build()
        return layer

    source_size = config.source_vocabulary_size
    target_size = config.target_vocabulary_size
    bias, tied = config.output_bias, config.tie_embeddings
    if tied == "all":
        source = target = output = embedding("embedding", target_size, bias)
    elif tied == "target":
        source = embedding("source_embedding", source_size)
        target = output = embedding("target_embedding", target_size, bias)
    elif tied == "inputs":
        source = target = embedding("input_embedding", source_size)
        output = embedding("output_embedding", target_size, bias)
    else:
        source = embedding("source_embedding", source_size)
        target = embedding("target_embedding", target_size)
        output = embedding("output_embedding", target_size, bias)
    return {
        "source_embedding": source,
        "target_embedding": target,
        "output_embedding": output,
    }


def residual_connection(name: str, config: TranslationConfig, policy: Any) -> Any:
    """The residual connection of a layer, with dropout and normalization."""
    return Residual(
        dropout=config.dropout,
        epsilon=config.layer_norm_epsilon,
        dtype=policy,
        name=name,
    )


def source_attention(
    name: str, config: RecurrentConfig | ConvolutionalConfig, policy: Any
) -> Any:
    """Attention to the source with one head of size D and the config's scoring."""
    return MultiHeadAttention(
        num_heads=1,
        head_dim=config.hidden_dim,
        attention_scoring=config.attention_scoring,
        dtype=policy,
        name=name,
    )


def cross_attention_bias(source_mask: Tensor) -> Tensor:
    """The bias that masks source padding: (B, S) bool -> (B, 1, 1, S) float32."""
    return masks.attention_bias(ops.expand_dims(source_mask, (1, 2)))
