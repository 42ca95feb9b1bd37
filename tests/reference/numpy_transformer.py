"""The whole model in NumPy float64, for one sentence pair without padding.

T target positions, S source positions, D hidden_dim, V target vocabulary.
"""

import math

import numpy as np

from reference import numpy_layers as layers


def transformer(config, weights, source, target):
    """Ids (S,) and (T,) -> logits (T, V).

    Args:
        config: a `TransformerConfig`.
        weights: {path of the variable: array}, as `reference.weights.read` gives.
    """
    memory = encode(config, weights, source)
    hidden = decode(config, weights, target, memory)
    if config.scale_logits:
        hidden = hidden / math.sqrt(config.hidden_dim)
    matrix = output_layer(config, weights)
    return hidden @ matrix["embeddings"].T + matrix.get("bias", 0.0)


def encode(config, weights, source):
    """Ids (S,) -> (S, D)."""
    hidden = embed(config, weights, source, "source")
    mask = None
    if config.attention_window is not None:
        mask = layers.local_mask(len(source), config.attention_window)
    position = relative_position(config, weights, len(source), "source")
    for index in range(config.num_encoder_layers):
        block = layers.below(weights, f"encoder_{index}")
        hidden = layers.encoder_block(block, config, hidden, mask, position)
    return _norm(config.final_norm, config, weights, "encoder_norm", hidden)


def decode(config, weights, target, memory):
    """Ids (T,) and (S, D) -> (T, D)."""
    hidden = embed(config, weights, target, "target")
    mask = layers.causal_mask(len(target))
    if config.attention_window is not None:
        mask &= layers.local_mask(len(target), config.attention_window)
    position = relative_position(config, weights, len(target), "target")
    for index in range(config.num_decoder_layers):
        block = layers.below(weights, f"decoder_{index}")
        hidden = layers.decoder_block(block, config, hidden, memory, mask, position)
    return _norm(config.final_norm, config, weights, "decoder_norm", hidden)


def embed(config, weights, ids, side):
    """Ids (T,) -> (T, D)."""
    tied = {"all": "embedding", "inputs": "input_embedding"}
    name = tied.get(config.tie_embeddings, f"{side}_embedding")
    hidden = weights[f"{name}/embeddings"][ids]
    if config.scale_embeddings:
        hidden = hidden * math.sqrt(config.hidden_dim)
    offset = config.position_offset
    if config.position == "learned":
        table = weights[f"{side}_position/embeddings"]
        hidden = hidden + table[offset : offset + len(ids)]
    elif config.position.startswith("sinusoidal"):
        hidden = hidden + layers.positional_encoding(
            len(ids), config.hidden_dim, config.position, offset
        )
    name = f"{side}_embedding_norm"
    return _norm(config.embedding_norm, config, weights, name, hidden)


def relative_position(config, weights, length, side):
    """What positions do in self-attention, as keywords of `multi_head_attention`."""
    if config.position.startswith("rotary"):
        halves = config.position == "rotary_halves"
        return {"rotate": lambda x: layers.rotary(x, config.rotary_base, halves)}
    if config.position == "relative_buckets":
        table = weights[f"{side}_position/embeddings"]
        distance, causal = config.max_relative_distance, side == "target"
        return {"bias": layers.relative_bias(table, length, distance, causal)}
    return None


def output_layer(config, weights):
    name = {
        "all": "embedding",
        "target": "target_embedding",
        "inputs": "output_embedding",
        "none": "output_embedding",
    }[config.tie_embeddings]
    return layers.below(weights, name)


def cross_entropy(logits, labels, label_smoothing):
    """-Σ q log p of each row, q the smoothed distribution written out: (N,)."""
    vocabulary_size = logits.shape[-1]
    smoothed = np.full(logits.shape, label_smoothing / vocabulary_size)
    smoothed[np.arange(len(labels)), labels] += 1.0 - label_smoothing
    return -(smoothed * np.log(layers.softmax(logits))).sum(axis=-1)


def _norm(wanted, config, weights, name, hidden):
    if not wanted:
        return hidden
    return layers.normalization(config)(layers.below(weights, name), hidden)
