"""The same Transformer in plain jax.numpy: one jitted step, Adam written out.

What one writes on JAX without a library of layers: weights in float32, the work in
bfloat16, softmax, norms and loss in float32, random numbers by the generator that is
fast on accelerators, weights and moments donated to the step. Post-norm, sinusoidal
positions, one matrix for both embeddings and the output, dropout 0.1.

B batch, S source positions, T target positions, D hidden_dim, F intermediate_dim,
H heads, K = D / H, V vocabulary.
"""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np

from peers.batches import PAD
from peers.batches import SIZES

DROPOUT, SMOOTHING = 0.1, 0.1
RATE, BETA_1, BETA_2, EPSILON = 1e-3, 0.9, 0.98, 1e-9


def trainer(data, preset, vocabulary_size, bfloat16):
    layers, D, F, H = SIZES[preset]
    weights = initialize(np.random.default_rng(1), layers, D, F, vocabulary_size)
    zeros = jax.tree.map(jnp.zeros_like, weights)
    state = (weights, zeros, jax.tree.map(jnp.copy, zeros), jnp.zeros((), "int32"))
    dtype = jnp.bfloat16 if bfloat16 else jnp.float32
    step = jax.jit(functools.partial(update, H, dtype), donate_argnums=0)
    rows = [jax.device_put(row) for row in data]
    key = jax.random.key(1, impl="rbg")
    taken = 0

    def train(steps):
        nonlocal state, taken
        for _ in range(steps):
            state, loss = step(state, key, *rows[taken % len(rows)])
            taken += 1
        jax.block_until_ready(state)
        return loss

    return train


def initialize(random, layers, D, F, vocabulary_size):
    """Nested dictionaries of float32 arrays."""

    def matrix(rows, columns):
        limit = math.sqrt(6 / (rows + columns))
        return jnp.asarray(random.uniform(-limit, limit, (rows, columns)), "float32")

    def norm():
        return {"gamma": jnp.ones(D), "beta": jnp.zeros(D)}

    def attention():
        return {**{name: matrix(D, D) for name in "qkvo"}, "norm": norm()}

    def network():
        inner = {"kernel": matrix(D, F), "bias": jnp.zeros(F)}
        outer = {"kernel": matrix(F, D), "bias": jnp.zeros(D)}
        return {"inner": inner, "outer": outer, "norm": norm()}

    embedding = random.normal(0, D**-0.5, (vocabulary_size, D))
    return {
        "embedding": jnp.asarray(embedding, "float32"),
        "encoder": [
            {"itself": attention(), "network": network()} for _ in range(layers)
        ],
        "decoder": [
            {"itself": attention(), "memory": attention(), "network": network()}
            for _ in range(layers)
        ],
    }


def update(H, dtype, state, key, source, target, labels):
    """One step of Adam: the new state, and the loss."""
    weights, first, second, count = state
    key = jax.random.fold_in(key, count)
    loss, gradients = jax.value_and_grad(loss_of)(
        weights, H, dtype, key, source, target, labels
    )
    count += 1
    rate = RATE * jnp.sqrt(1 - BETA_2**count) / (1 - BETA_1**count)
    first = jax.tree.map(lambda m, g: BETA_1 * m + (1 - BETA_1) * g, first, gradients)
    second = jax.tree.map(
        lambda v, g: BETA_2 * v + (1 - BETA_2) * g * g, second, gradients
    )
    weights = jax.tree.map(
        lambda w, m, v: w - rate * m / (jnp.sqrt(v) + EPSILON), weights, first, second
    )
    return (weights, first, second, count), loss


def loss_of(weights, H, dtype, key, source, target, labels):
    """Label-smoothed cross-entropy, the mean over the tokens."""
    model = _Forward(jax.tree.map(lambda w: w.astype(dtype), weights), H, key)
    logits = model.logits(source, target).astype(jnp.float32)  # (B, T, V)
    normalizer = jax.nn.logsumexp(logits, axis=-1)
    score = jnp.take_along_axis(logits, labels[..., None], axis=-1)[..., 0]
    mean = logits.mean(axis=-1)
    losses = normalizer - (1 - SMOOTHING) * score - SMOOTHING * mean
    mask = labels != PAD
    return jnp.sum(losses * mask) / jnp.sum(mask)


class _Forward:
    """A forward pass in training; each dropout takes the next key."""

    def __init__(self, weights, H, key):
        self.weights = weights
        self.H = H
        self.key = key
        self.calls = 0

    def logits(self, source, target):
        """(B, S), (B, T) -> (B, T, V)."""
        places = jnp.arange(target.shape[1])
        source_mask = (source != PAD)[:, None, None]  # (B, 1, 1, S)
        causal = (places <= places[:, None])[None, None]  # (1, 1, T, T)
        memory = self.embed(source)
        for block in self.weights["encoder"]:
            memory = self.attend(block["itself"], memory, memory, source_mask)
            memory = self.transform(block["network"], memory)
        hidden = self.embed(target)
        for block in self.weights["decoder"]:
            hidden = self.attend(block["itself"], hidden, hidden, causal)
            hidden = self.attend(block["memory"], hidden, memory, source_mask)
            hidden = self.transform(block["network"], hidden)
        return hidden @ self.weights["embedding"].T

    def embed(self, ids):
        table = self.weights["embedding"]
        D = table.shape[1]
        angles = np.arange(ids.shape[1])[:, None] / 10_000 ** (np.arange(0, D, 2) / D)
        positions = np.stack([np.sin(angles), np.cos(angles)], -1)
        positions = jnp.asarray(positions.reshape(-1, D), table.dtype)
        return self.dropout(table[ids] * D**0.5 + positions)

    def attend(self, weights, hidden, memory, mask):
        queries = self.split(hidden @ weights["q"])
        keys, values = (self.split(memory @ weights[name]) for name in "kv")
        scores = jnp.einsum("bthk,bshk->bhts", queries, keys)
        scores = scores.astype(jnp.float32) / math.sqrt(queries.shape[-1])
        shares = jax.nn.softmax(jnp.where(mask, scores, -1e9)).astype(values.dtype)
        mixed = jnp.einsum("bhts,bshk->bthk", shares, values)
        added = mixed.reshape(hidden.shape) @ weights["o"]
        return self.normalize(weights["norm"], hidden + self.dropout(added))

    def split(self, vectors):
        """(B, T, D) -> (B, T, H, K)."""
        return vectors.reshape(*vectors.shape[:2], self.H, -1)

    def transform(self, weights, hidden):
        inner, outer = weights["inner"], weights["outer"]
        added = jax.nn.relu(hidden @ inner["kernel"] + inner["bias"])
        added = added @ outer["kernel"] + outer["bias"]
        return self.normalize(weights["norm"], hidden + self.dropout(added))

    def normalize(self, weights, vectors):
        wide = vectors.astype(jnp.float32)
        wide = wide - wide.mean(axis=-1, keepdims=True)
        wide = wide * jax.lax.rsqrt((wide**2).mean(axis=-1, keepdims=True) + 1e-6)
        return (wide * weights["gamma"] + weights["beta"]).astype(vectors.dtype)

    def dropout(self, vectors):
        self.calls += 1
        key = jax.random.fold_in(self.key, self.calls)
        kept = jax.random.bernoulli(key, 1 - DROPOUT, vectors.shape)
        return jnp.where(kept, vectors / (1 - DROPOUT), 0)
