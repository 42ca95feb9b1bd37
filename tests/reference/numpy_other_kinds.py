"""The other models in NumPy float64, for one sentence pair or one story.

Written from the papers: a loop over positions, one gate after the other.

T target positions, S source positions, D hidden_dim, V target vocabulary.
"""

import itertools
import math

import numpy as np

from reference import numpy_layers as layers
from reference.numpy_transformer import output_layer


def recurrent(config, weights, source, target):
    """Ids (S,) and (T,) -> logits (T, V)."""
    memory = _embed(config, weights, source, "source")
    for index in range(config.num_encoder_layers):
        name = f"encoder_{index}"
        both = [
            _lstm(layers.below(weights, f"{name}_forward"), memory),
            _lstm(layers.below(weights, f"{name}_backward"), memory[::-1])[::-1],
        ]
        update = np.concatenate(both, axis=-1)
        memory = _residual(config, weights, f"{name}_residual", memory, update)
    ends = np.concatenate([memory[0], memory[-1]])
    hidden = _embed(config, weights, target, "target")
    for index in range(config.num_decoder_layers):
        name = f"decoder_{index}"
        first = layers.below(weights, f"{name}_first_state")
        output, cell = np.split(ends @ first["kernel"] + first["bias"], 2)
        state = np.tanh(output), cell
        update = _lstm(layers.below(weights, name), hidden, state)
        hidden = _residual(config, weights, f"{name}_residual", hidden, update)
        if index == 0 and config.attention != "none":
            hidden = _attend(config, weights, "decoder_attention", hidden, memory)
    return _logits(config, weights, hidden)


def convolutional(config, weights, source, target):
    """Ids (S,) and (T,) -> logits (T, V)."""
    memory = _embed(config, weights, source, "source", positions=True)
    reach = config.kernel_size // 2
    dilations = config.dilations(config.num_encoder_layers)
    for index, dilation in enumerate(dilations):
        places = [dilation * step for step in range(-reach, reach + 1)]
        memory = _convolve(config, weights, f"encoder_{index}", memory, places)
    hidden = _embed(config, weights, target, "target", positions=True)
    dilations = config.dilations(config.num_decoder_layers)
    for index, dilation in enumerate(dilations):
        places = [dilation * step for step in range(1 - config.kernel_size, 1)]
        hidden = _convolve(config, weights, f"decoder_{index}", hidden, places)
        hidden = _attend(config, weights, f"decoder_{index}_attention", hidden, memory)
    return _logits(config, weights, hidden)


def memory_network(num_hops, weights, story, question, linear=False):
    """Lists of ids without padding -> logits (V,) and attention (K, S)."""
    embeddings = [layers.below(weights, f"embedding_{k}") for k in range(num_hops + 1)]
    memories = [layers.sentences(its, story) for its in embeddings]
    query = layers.sentence(embeddings[0]["words/embeddings"], question)
    attention = []
    for key, value in itertools.pairwise(memories):
        query, its = layers.memory_hop(query, key, value, linear)
        attention.append(its)
    return embeddings[-1]["words/embeddings"] @ query, np.array(attention)


def _sigmoid(inputs):
    return 1.0 / (1.0 + np.exp(-inputs))


def _lstm(weights, inputs, state=None):
    """(T, D) -> (T, units), Keras' order of gates: input, forget, cell, output."""
    weights = layers.below(weights, "lstm_cell")
    units = len(weights["recurrent_kernel"])
    output, cell = state or (np.zeros(units), np.zeros(units))
    outputs = []
    for row in inputs:
        sums = row @ weights["kernel"] + output @ weights["recurrent_kernel"]
        into, forget, new, out = np.split(sums + weights["bias"], 4)
        cell = _sigmoid(forget) * cell + _sigmoid(into) * np.tanh(new)
        output = _sigmoid(out) * np.tanh(cell)
        outputs.append(output)
    return np.array(outputs)


def _convolve(config, weights, name, hidden, places):
    """The gated sum over what stands at `places` from each position, zeros outside."""
    kernel = layers.below(weights, f"{name}_convolution/convolution")
    sums = np.tile(kernel["bias"], (len(hidden), 1))
    for position in range(len(hidden)):
        for matrix, place in zip(kernel["kernel"], places, strict=True):
            if 0 <= position + place < len(hidden):
                sums[position] += hidden[position + place] @ matrix
    values, gates = np.split(sums, 2, axis=-1)
    update = values * _sigmoid(gates)
    return _residual(config, weights, f"{name}_convolution_residual", hidden, update)


def _attend(config, weights, name, hidden, memory):
    update, _ = layers.multi_head_attention(
        layers.below(weights, name), 1, hidden, memory, scoring=config.attention
    )
    return _residual(config, weights, f"{name}_residual", hidden, update)


def _residual(config, weights, name, hidden, update):
    norm = layers.below(weights, f"{name}/norm")
    return layers.layer_norm(norm, hidden + update, config.layer_norm_epsilon)


def _embed(config, weights, ids, side, positions=False):
    shared = config.tie_embeddings == "all"
    name = "embedding" if shared else f"{side}_embedding"
    hidden = weights[f"{name}/embeddings"][ids]
    if config.scale_embeddings:
        hidden = hidden * math.sqrt(config.hidden_dim)
    if positions:
        hidden = hidden + layers.positional_encoding(len(ids), config.hidden_dim)
    return hidden


def _logits(config, weights, hidden):
    matrix = output_layer(config, weights)
    return hidden @ matrix["embeddings"].T + matrix.get("bias", 0.0)
