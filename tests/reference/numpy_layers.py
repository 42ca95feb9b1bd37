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


def attention(
    query,
    key,
    value,
    mask=None,
    scoring="scaled_dot_product",
    vector=None,
    bias=None,
):
    """(T, K), (S, K), (S, value_dim) -> (T, value_dim) and weights (T, S)."""
    if scoring == "additive":
        pairs = [[vector @ np.tanh(q + k) for k in key] for q in query]
        scores = np.array(pairs)
    else:
        scores = query @ key.T
        if scoring == "scaled_dot_product":
            scores = scores / math.sqrt(query.shape[-1])
    if bias is not None:
        scores = scores + bias
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ value, weights


def multi_head_attention(
    weights,
    num_heads,
    query,
    value=None,
    key=None,
    mask=None,
    scoring=None,
    *,
    num_key_value_heads=None,
    normalize=None,
    rotate=None,
    bias=None,
):
    """(T, D), (S, D) -> (T, output_dim) and weights (H, T, S).

    `normalize` is applied to each head's queries and keys with the weights of their
    normalization, `rotate` to both; `bias` is (H, T, S).
    """
    value = query if value is None else value
    key = value if key is None else key
    groups = num_key_value_heads or num_heads

    def project(inputs, name, count):
        outputs = inputs @ weights[f"{name}_kernel"]
        outputs = outputs + weights.get(f"{name}_bias", 0.0)
        parts = np.split(outputs, count, axis=-1)
        if name != "value" and normalize is not None:
            norm = below(weights, f"{name}_norm")
            parts = [normalize(norm, part) for part in parts]
        if name != "value" and rotate is not None:
            parts = [rotate(part) for part in parts]
        return [part for part in parts for _ in range(num_heads // count)]

    heads, head_weights = [], []
    projections = zip(
        project(query, "query", num_heads),
        project(key, "key", groups),
        project(value, "value", groups),
        strict=True,
    )
    for index, parts in enumerate(projections):
        vector = None
        if scoring == "additive":
            vector = weights["score_weights"].reshape(num_heads, -1)[index]
        scores = None if bias is None else bias[index]
        scoring = scoring or "scaled_dot_product"
        head = attention(*parts, mask, scoring, vector, scores)
        heads.append(head[0])
        head_weights.append(head[1])
    output = np.concatenate(heads, axis=-1) @ weights["output_kernel"]
    return output + weights.get("output_bias", 0.0), np.stack(head_weights)


def rotary(states, base=10_000.0, halves=False):
    """Queries or keys (T, K), each pair a complex number that is turned."""
    length, size = states.shape
    turned = np.zeros_like(states)
    for position in range(length):
        for pair in range(size // 2):
            places = (pair, pair + size // 2) if halves else (2 * pair, 2 * pair + 1)
            angle = position * base ** (-2 * pair / size)
            number = complex(*states[position, places]) * np.exp(1j * angle)
            turned[position, places] = number.real, number.imag
    return turned


def relative_bucket(distance, num_buckets, max_distance, causal):
    """The bucket of key position minus query position, case by case."""
    first = 0
    if causal:
        distance = max(-distance, 0)
    else:
        num_buckets //= 2
        first = num_buckets if distance > 0 else 0
        distance = abs(distance)
    exact = num_buckets // 2
    if distance < exact:
        return first + distance
    share = math.log(distance / exact) / math.log(max_distance / exact)
    return first + min(exact + int(share * (num_buckets - exact)), num_buckets - 1)


def relative_bias(table, length, max_distance, causal):
    """(buckets, H) -> (H, T, T)."""
    bias = np.zeros((table.shape[1], length, length))
    for query in range(length):
        for key in range(length):
            bucket = relative_bucket(key - query, len(table), max_distance, causal)
            bias[:, query, key] = table[bucket]
    return bias


def layer_norm(weights, inputs, epsilon):
    mean = inputs.mean(axis=-1, keepdims=True)
    variance = ((inputs - mean) ** 2).mean(axis=-1, keepdims=True)
    normal = (inputs - mean) / np.sqrt(variance + epsilon)
    return normal * weights["gamma"] + weights["beta"]


def rms_norm(weights, inputs, epsilon):
    mean_square = (inputs**2).mean(axis=-1, keepdims=True)
    return inputs / np.sqrt(mean_square + epsilon) * weights["scale"]


def normalization(config):
    """Of a config, a function of weights and inputs."""
    kind = {"layer": layer_norm, "rms": rms_norm}[config.normalization_layer]
    return lambda weights, inputs: kind(weights, inputs, config.layer_norm_epsilon)


def _gelu(inputs):
    return inputs * 0.5 * (1.0 + np.vectorize(math.erf)(inputs / math.sqrt(2.0)))


ACTIVATIONS = {
    "relu": lambda inputs: np.maximum(0.0, inputs),
    "gelu": _gelu,
    "gelu_tanh": lambda inputs: (
        inputs
        * 0.5
        * (1 + np.tanh(math.sqrt(2 / math.pi) * (inputs + 0.044715 * inputs**3)))
    ),
    "gelu_sigmoid": lambda inputs: inputs / (1.0 + np.exp(-1.702 * inputs)),
    "swish": lambda inputs: inputs / (1.0 + np.exp(-inputs)),
}


def feed_forward(weights, inputs, activation="relu"):
    """Gated where the weights have a gate."""

    def affine(inputs, name):
        return inputs @ weights[f"{name}_kernel"] + weights.get(f"{name}_bias", 0.0)

    inner = affine(inputs, "inner")
    if "gate_kernel" in weights:
        inner = ACTIVATIONS[activation](affine(inputs, "gate")) * inner
    else:
        inner = ACTIVATIONS[activation](inner)
    return affine(inner, "outer")


def residual(weights, config, stream, sublayer, stream_scale=1.0):
    norm, normalize = below(weights, "norm"), normalization(config)
    if config.normalize_first:
        return stream + sublayer(normalize(norm, stream))
    return normalize(norm, stream_scale * stream + sublayer(stream))


def encoder_block(weights, config, source, mask=None, position=None):
    """(S, D) -> (S, D); `position` has the keywords of `multi_head_attention`."""
    hidden = _attend(weights, "self", "encoder", config, source, None, mask, position)
    return _feed_forward(weights, "encoder", config, hidden)


def ssru(weights, inputs):
    """(T, D) -> (T, D), one position after the other."""
    state, outputs = np.zeros(inputs.shape[-1]), []
    for row in inputs:
        gates = row @ weights["forget_kernel"] + weights["forget_bias"]
        forget = 1.0 / (1.0 + np.exp(-gates))
        state = forget * state + (1.0 - forget) * (row @ weights["input_kernel"])
        outputs.append(np.maximum(0.0, state))
    return np.array(outputs)


def sentence(matrix, ids, in_order=True):
    """Ids (J,), none of them 0, and E (V, D) -> (D,), entry by entry."""
    vector = np.zeros(matrix.shape[1])
    for j, word in enumerate(ids, start=1):
        for k in range(1, len(vector) + 1):
            place, entry = j / len(ids), k / len(vector)
            weight = (1 - place) - entry * (1 - 2 * place) if in_order else 1.0
            vector[k - 1] += weight * matrix[word, k - 1]
    return vector


def sentences(weights, story, in_order=True):
    """A list of sentences -> (S, D); the last one is 0 old."""
    words = weights["words/embeddings"]
    vectors = np.array([sentence(words, ids, in_order) for ids in story])
    if "ages" in weights:
        vectors += weights["ages"][: len(story)][::-1]
    return vectors


def memory_hop(query, key, value, linear=False):
    """(D,), (S, D), (S, D) -> (D,) and weights (S,)."""
    scores = key @ query
    weights = scores if linear else softmax(scores)
    return query + weights @ value, weights


def decoder_block(weights, config, target, memory, mask, position=None):
    """(T, D), (S, D) -> (T, D)."""
    if config.decoder == "ssru":
        hidden = residual(
            below(weights, "ssru_residual"),
            config,
            target,
            lambda inputs: ssru(below(weights, "ssru"), inputs),
            config.deep_norm_factors("decoder")[0],
        )
    else:
        hidden = _attend(
            weights, "self", "decoder", config, target, None, mask, position
        )
    hidden = _attend(weights, "cross", "decoder", config, hidden, memory, None, None)
    return _feed_forward(weights, "decoder", config, hidden)


def _attend(weights, name, side, config, hidden, memory, mask, position):
    sizes = config.sizes(side)
    return residual(
        below(weights, f"{name}_attention_residual"),
        config,
        hidden,
        lambda inputs: multi_head_attention(
            below(weights, f"{name}_attention"),
            sizes.num_heads,
            inputs,
            memory,
            mask=mask,
            scoring=config.attention_scoring,
            num_key_value_heads=sizes.num_key_value_heads,
            normalize=normalization(config) if config.query_key_norm else None,
            **(position or {}),
        )[0],
        config.deep_norm_factors(side)[0],
    )


def _feed_forward(weights, side, config, hidden):
    return residual(
        below(weights, "feed_forward_residual"),
        config,
        hidden,
        lambda inputs: feed_forward(
            below(weights, "feed_forward"), inputs, config.activation
        ),
        config.deep_norm_factors(side)[0],
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
