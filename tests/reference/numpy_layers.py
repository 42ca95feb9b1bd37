"""The layers in NumPy float64, for one sentence at a time: no batch and no padding.

Written from the paper, as plainly as possible: a loop over heads, matrices of two
axes. Weights are dictionaries {name: array}.

T query positions, S key positions, D hidden_dim, F intermediate_dim, K head_dim.
"""

import math

import numpy as np


def below(weights, prefix):
    """The weights whose path begins with `prefix`/, by the rest of their path."""
    prefix = f"{prefix}/"
    return {
        path.removeprefix(prefix): value
        for path, value in weights.items()
        if path.startswith(prefix)
    }


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def causal_mask(length):
    """(T, T), True where the key is not later than the query."""
    return np.array(
        [[key <= query for key in range(length)] for query in range(length)]
    )


def local_mask(length, window):
    """(T, T), True where query and key are at most `window` apart."""
    return np.array(
        [
            [abs(key - query) <= window for key in range(length)]
            for query in range(length)
        ]
    )


def attention(query, key, value, mask=None, scoring="scaled_dot_product", vector=None):
    """(T, K), (S, K), (S, value_dim) -> (T, value_dim) and weights (T, S)."""
    if scoring == "additive":
        pairs = [[vector @ np.tanh(q + k) for k in key] for q in query]
        scores = np.array(pairs)
    else:
        scores = query @ key.T
        if scoring == "scaled_dot_product":
            scores = scores / math.sqrt(query.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ value, weights


def multi_head_attention(
    weights, num_heads, query, value=None, key=None, mask=None, scoring=None
):
    """(T, D), (S, D) -> (T, output_dim) and weights (H, T, S)."""
    value = query if value is None else value
    key = value if key is None else key

    def project(inputs, name):
        outputs = inputs @ weights[f"{name}_kernel"]
        outputs = outputs + weights.get(f"{name}_bias", 0.0)
        return np.split(outputs, num_heads, axis=-1)

    heads, head_weights = [], []
    projections = zip(
        project(query, "query"),
        project(key, "key"),
        project(value, "value"),
        strict=True,
    )
    for index, parts in enumerate(projections):
        vector = None
        if scoring == "additive":
            vector = weights["score_weights"].reshape(num_heads, -1)[index]
        head = attention(*parts, mask, scoring or "scaled_dot_product", vector)
        heads.append(head[0])
        head_weights.append(head[1])
    output = np.concatenate(heads, axis=-1) @ weights["output_kernel"]
    return output + weights.get("output_bias", 0.0), np.stack(head_weights)


def layer_norm(weights, inputs, epsilon):
    mean = inputs.mean(axis=-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(axis=-1, keepdims=True)
    normal = (inputs - mean) / np.sqrt(variance + epsilon)
    return normal * weights["gamma"] + weights["beta"]


def _gelu(inputs):
    return inputs * 0.5 * (1.0 + np.vectorize(math.erf)(inputs / math.sqrt(2.0)))


ACTIVATIONS = {
    "relu": lambda inputs: np.maximum(0.0, inputs),
    "gelu": _gelu,
    "swish": lambda inputs: inputs / (1.0 + np.exp(-inputs)),
}


def feed_forward(weights, inputs, activation="relu"):
    inner = inputs @ weights["inner_kernel"] + weights["inner_bias"]
    inner = ACTIVATIONS[activation](inner)
    return inner @ weights["outer_kernel"] + weights["outer_bias"]


def residual(weights, config, stream, sublayer):
    norm = below(weights, "norm")
    epsilon = config.layer_norm_epsilon
    if config.normalize_first:
        return stream + sublayer(layer_norm(norm, stream, epsilon))
    return layer_norm(norm, stream + sublayer(stream), epsilon)


def encoder_block(weights, config, source, mask=None):
    """(S, D) -> (S, D)."""
    hidden = _attend(weights, "self_attention", config, source, None, mask)
    return _feed_forward(weights, config, hidden)


def decoder_block(weights, config, target, memory, mask):
    """(T, D), (S, D) -> (T, D)."""
    hidden = _attend(weights, "self_attention", config, target, None, mask)
    hidden = _attend(weights, "cross_attention", config, hidden, memory, None)
    return _feed_forward(weights, config, hidden)


def _attend(weights, name, config, hidden, memory, mask):
    return residual(
        below(weights, f"{name}_residual"),
        config,
        hidden,
        lambda inputs: multi_head_attention(
            below(weights, name), config.num_heads, inputs, memory, mask=mask
        )[0],
    )


def _feed_forward(weights, config, hidden):
    return residual(
        below(weights, "feed_forward_residual"),
        config,
        hidden,
        lambda inputs: feed_forward(
            below(weights, "feed_forward"), inputs, config.activation
        ),
    )


def positional_encoding(length, hidden_dim, kind="sinusoidal", offset=0):
    """(T, D): entry by entry, as the formula is printed."""
    table = np.zeros((length, hidden_dim))
    pairs = hidden_dim // 2
    for row in range(length):
        for pair in range(pairs):
            exponent = 2 * pair / hidden_dim
            if kind == "sinusoidal_halves_t2t":
                exponent = pair / (pairs - 1)
            angle = (row + offset) / 10_000**exponent
            sine, cosine = 2 * pair, 2 * pair + 1
            if kind != "sinusoidal":
                sine, cosine = pair, pairs + pair
            table[row, sine], table[row, cosine] = math.sin(angle), math.cos(angle)
    return table
