# %% [markdown]
# # Lesson 1: attention from the formula
#
# $$
# \mathrm{Attention}(Q, K, V) =
# \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d_k}} + M\right) V
# $$
#
# Equation 1 of *Attention Is All You Need*, with the mask M written out. Here it is
# taken apart on a few vectors: what a query asks and a key answers, what masks are for,
# why the scores are divided by √d_k, and why there are several heads. Everything is
# computed twice: once in NumPy, as printed, and once by the layers of this package.
#
# What to expect: both agree to 1e-6; without the division the gradient that training
# lives on dies out as d_k grows, and with it stays as large as it was; two heads do
# what one cannot.
#
# Run it on another backend by setting `KERAS_BACKEND=jax`, `tensorflow` or `torch`
# before Python starts. The pictures go to the working directory, as
# `lesson_1_*.png`.

# %%
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

from keras_transformer import layers
from keras_transformer.layers import masks

FAST = bool(os.environ.get("TUTORIAL_FAST"))
rng = np.random.default_rng(1)
print("backend:", keras.backend.backend())


def numpy(tensor):
    return ops.convert_to_numpy(tensor)


def heat_map(axes, weights, title, rows=None, columns=None):
    axes.imshow(weights, vmin=0.0, vmax=1.0, cmap="Blues")
    axes.set_title(title)
    axes.set_xticks(range(weights.shape[1]), columns or range(weights.shape[1]))
    axes.set_yticks(range(weights.shape[0]), rows or range(weights.shape[0]))
    axes.set(xlabel="key", ylabel="query")


# %% [markdown]
# ## A soft dictionary
#
# A dictionary gives the value whose key equals the query. Attention gives a mixture of
# all values, each with a weight: the softmax of how well its key matches. Below, three
# words have keys and values, and the word *it* asks with a query much like the key of
# *animal*.

# %%
words = ["animal", "street", "tired"]
key = np.array([[2.0, 0.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [0.0, 0.0, 2.0, 0.0]])
value = np.array([[1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
query = np.array([[3.0, 0.5, 1.0, 0.0]])  # what "it" asks


def softmax(scores):
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return exponentials / exponentials.sum(axis=-1, keepdims=True)


def attention(query, key, value, mask=None):
    """Queries (T, K), keys (S, K), values (S, V): outputs (T, V), weights (T, S)."""
    scores = query @ key.T / np.sqrt(key.shape[-1])
    if mask is not None:
        scores = np.where(mask, scores, -np.inf)
    weights = softmax(scores)
    return weights @ value, weights


output, weights = attention(query, key, value)
for word, weight in zip(words, weights[0], strict=True):
    print(f"it -> {word:8}{weight:.3f}")
print("output:", output[0].round(3))
assert weights.argmax() == words.index("animal")
np.testing.assert_allclose(weights.sum(), 1.0)

# %% [markdown]
# The package has the same function, for any number of leading axes.

# %%
tensors = (query, key, value)
tensors = [ops.convert_to_tensor(array, dtype="float32") for array in tensors]
found = layers.scaled_dot_product_attention(*tensors)
print("output of the layer: ", numpy(found[0])[0].round(3))
np.testing.assert_allclose(numpy(found[0]), output, atol=1e-6)
np.testing.assert_allclose(numpy(found[1]), weights, atol=1e-6)

# %% [markdown]
# ## Masks
#
# Not every position may look everywhere. In this package a mask is boolean, and True
# means *may attend*:
#
# * *padding*: batches are filled up with `pad_id`, which nothing should see;
# * *causal*: a word of the translation must not see those after it, or training would
#   be copying;
# * *local*: the restricted self-attention that the paper mentions in section 4; with a
#   window of 1, a position sees itself and its two neighbours;
# * any of them together.
#
# Blocked scores become very negative, so that their weight is exactly 0. In the
# pictures a row is a query and a column a key: the darker, the larger the weight, from
# 0 to 1.

# %%
LENGTH, WIDTH = 6, 8
ids = np.array([[7, 4, 9, 5, 0, 0]])  # four tokens and padding
shown = {
    "padding": np.repeat(numpy(masks.padding_mask(ids))[0, 0], LENGTH, axis=0),
    "causal": numpy(masks.causal_mask(LENGTH)),
    "local, window 1": numpy(masks.local_mask(LENGTH, 1)),
    "padding and causal": numpy(
        masks.combine(masks.padding_mask(ids), masks.causal_mask(LENGTH))
    )[0, 0],
}
stream = rng.normal(size=(LENGTH, WIDTH))
figure, grid = plt.subplots(1, len(shown), figsize=(14, 3.6))
for axes, (name, mask) in zip(grid, shown.items(), strict=True):
    weights = attention(stream, stream, stream, mask)[1]
    assert (weights[~mask] == 0.0).all()
    tensors = [ops.convert_to_tensor(stream[None], dtype="float32")] * 3
    bias = masks.attention_bias(ops.convert_to_tensor(mask))
    found = numpy(layers.scaled_dot_product_attention(*tensors, bias=bias)[1])[0]
    np.testing.assert_allclose(found, weights, atol=1e-6)
    assert (found[~mask] == 0.0).all()
    heat_map(axes, weights, name)
figure.tight_layout()
figure.savefig("lesson_1_masks.png")

# %% [markdown]
# What is blocked does not matter at all: other values there change nothing.

# %%
mask = shown["causal"]
changed = stream.copy()
changed[4:] = rng.normal(size=(LENGTH - 4, WIDTH))
before, after = (attention(x, x, x, mask)[0] for x in (stream, changed))
print("change at each position:", np.abs(after - before).max(axis=-1).round(2))
np.testing.assert_array_equal(after[:4], before[:4])
assert np.abs(after[4:] - before[4:]).max() > 0.1

# %% [markdown]
# ## Why √d_k?
#
# The paper's footnote: if the entries of q and k are independent, with mean 0 and
# variance 1, then q · k is a sum of d_k products and has variance d_k. So large scores
# push the softmax to where its gradient is small. Each part of this can be measured.
#
# First the variance.

# %%
SIZES = [4, 16, 64, 256, 1024]
DRAWS, KEYS = (200, 16) if FAST else (2000, 16)


def scores_of(size):
    """(draws, keys): scores, not yet scaled, of random queries and keys."""
    queries = rng.normal(size=(DRAWS, 1, size))
    keys = rng.normal(size=(DRAWS, KEYS, size))
    return (queries * keys).sum(axis=-1)


scores = {size: scores_of(size) for size in SIZES}
for size in SIZES:
    print(f"d_k {size:5}   variance of q · k {scores[size].var():8.1f}")
    assert abs(scores[size].var() / size - 1.0) < 0.25

# %% [markdown]
# Then the gradient. With p = softmax(s) it is
#
# $$
# \frac{\partial p_i}{\partial s_j} = p_i\, (\delta_{ij} - p_j)
# $$
#
# where δ is 1 if i = j, and else 0. Where one weight is nearly 1 and the others are
# nearly 0, all of these are nearly 0. The norm of this matrix, the root of the sum of
# its squares, says how much of a gradient survives on its way from the weights to the
# scores. Below is the median of all draws.


# %%
def surviving_gradient(scores):
    weights = softmax(scores)
    diagonal = weights[..., None] * np.eye(scores.shape[-1])
    jacobian = diagonal - weights[..., None] * weights[..., None, :]
    return np.median(np.sqrt((jacobian**2).sum(axis=(-2, -1))))


# The formula itself, against a difference quotient.
few, step = scores[4][:1], 1e-6
moved = few + step * np.eye(KEYS)
quotient = (softmax(moved) - softmax(few)) / step
weights = softmax(few)[0]
np.testing.assert_allclose(
    quotient, np.diag(weights) - np.outer(weights, weights), atol=1e-5
)

plain = [surviving_gradient(scores[size]) for size in SIZES]
scaled = [surviving_gradient(scores[size] / np.sqrt(size)) for size in SIZES]
largest = [softmax(scores[size]).max(axis=-1).mean() for size in SIZES]
for row in zip(SIZES, plain, scaled, largest, strict=True):
    print(
        "d_k {:5}   gradient {:.3f}   scaled {:.3f}   largest weight {:.2f}".format(
            *row
        )
    )

assert max(scaled) / min(scaled) < 1.3
assert plain[-1] < 0.1 * scaled[-1]
assert largest[-1] > 0.9

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8))
left.plot(SIZES, scaled, "o-", label="softmax(q · k / √d_k)")
left.plot(SIZES, plain, "s--", label="softmax(q · k)")
left.set(xscale="log", xlabel="d_k", ylabel="gradient that survives", ylim=(0, None))
left.legend()
for name, factor in (("softmax(q · k / √d_k)", 1024**-0.5), ("softmax(q · k)", 1.0)):
    ordered = np.sort(softmax(scores[1024] * factor), axis=-1)[:, ::-1].mean(axis=0)
    right.plot(range(1, KEYS + 1), ordered, "o-", label=name)
right.set(xlabel="key, by weight", ylabel="mean weight", title="d_k = 1024")
right.legend()
figure.tight_layout()
figure.savefig("lesson_1_scaling.png")

# %% [markdown]
# On the left is what matters to training: with the division the curve is flat. On the
# right is why, with the keys of each query in the order of their weights: without the
# division the first key gets nearly all.

# %% [markdown]
# ## Heads
#
# One head has one distribution of weights for each query, and gives one mixture: it can
# look at the word before, or at the word after, but if it looks at both it cannot tell
# which was which. Two heads look at one each, and hand on both, side by side.
#
# The layer below has weights set by hand. A word's vector is its place (one entry a
# position) and its content. In head 1 the query of position t matches the key of
# position t - 1, in head 2 that of t + 1; the values are contents. Where there is no
# such neighbour, at one end of the sentence, all keys match equally badly, and the
# weights are even.

# %%
sentence = ["the", "cat", "sat", "on", "the", "mat"]
LENGTH, CONTENT = len(sentence), 4
vocabulary = {word: rng.normal(size=CONTENT) for word in sorted(set(sentence))}
content = np.array([vocabulary[word] for word in sentence])
inputs = np.concatenate([np.eye(LENGTH), content], axis=1)[None]  # (1, T, D)
D = inputs.shape[-1]

attend = layers.MultiHeadAttention(
    num_heads=2, head_dim=LENGTH, value_dim=CONTENT, output_dim=2 * CONTENT
)
attend.build(inputs.shape)
SHARP = 50.0
kernels = {
    name: np.zeros((D, 2 * size))
    for name, size in (("query", LENGTH), ("key", LENGTH), ("value", CONTENT))
}
for head, shift in enumerate((-1, 1)):
    here = slice(head * LENGTH, (head + 1) * LENGTH)
    kernels["query"][:LENGTH, here] = SHARP * np.eye(LENGTH, k=shift)
    kernels["key"][:LENGTH, here] = np.eye(LENGTH)
    kernels["value"][LENGTH:, head * CONTENT : (head + 1) * CONTENT] = np.eye(CONTENT)
for name, kernel in kernels.items():
    getattr(attend, f"{name}_kernel").assign(kernel)
attend.output_kernel.assign(np.eye(2 * CONTENT))

output, weights = attend(
    ops.convert_to_tensor(inputs, dtype="float32"), return_attention_weights=True
)
before, after = np.split(numpy(output)[0], 2, axis=-1)
np.testing.assert_allclose(before[1:], content[:-1], atol=1e-5)
np.testing.assert_allclose(after[:-1], content[1:], atol=1e-5)

figure, grid = plt.subplots(1, 2, figsize=(9, 4.2))
for axes, head, title in zip(
    grid, numpy(weights)[0], ("head 1", "head 2"), strict=True
):
    heat_map(axes, head, title, sentence, sentence)
figure.tight_layout()
figure.savefig("lesson_1_heads.png")

# %% [markdown]
# One head with both matches gives half of each: the mean of two words, which does not
# tell which came first. Exchanging the neighbours of *sat* does not change it.

# %%
both = np.eye(LENGTH, k=-1) + np.eye(LENGTH, k=1)
place = inputs[0, :, :LENGTH]
mixed, _ = attention(SHARP * place @ both, place, content)
exchanged = content[[0, 3, 2, 1, 4, 5]]
mixed_exchanged, _ = attention(SHARP * place @ both, place, exchanged)
print("position 2 reads        ", mixed[2].round(3))
print("its neighbours exchanged", mixed_exchanged[2].round(3))
np.testing.assert_allclose(mixed[2], (content[1] + content[3]) / 2, atol=1e-5)
np.testing.assert_allclose(mixed_exchanged[2], mixed[2], atol=1e-5)

# %% [markdown]
# ## Against the layer
#
# Multi-head attention applies the function above once for each head, to projections of
# its own, and multiplies the results, side by side, with one more matrix:
#
# $$
# \mathrm{MultiHead}(Q, K, V) =
# \mathrm{Concat}(\mathrm{head}_1, \ldots, \mathrm{head}_H)\, W^O
# $$
#
# With random weights and a causal mask, the plain loop gives what `MultiHeadAttention`
# gives.


# %%
def multi_head_attention(inputs, kernels, num_heads, mask):
    projected = [
        np.split(inputs @ kernels[f"{name}_kernel"], num_heads, axis=-1)
        for name in ("query", "key", "value")
    ]
    heads = [attention(*parts, mask)[0] for parts in zip(*projected, strict=True)]
    return np.concatenate(heads, axis=-1) @ kernels["output_kernel"]


layer = layers.MultiHeadAttention(num_heads=4, head_dim=8)
stream = rng.normal(size=(1, 10, 32)).astype("float32")
mask = masks.causal_mask(10)
found = numpy(layer(ops.convert_to_tensor(stream), attention_mask=mask))
kernels = {weight.name: numpy(weight) for weight in layer.weights}
expected = multi_head_attention(stream[0].astype("float64"), kernels, 4, numpy(mask))
difference = np.abs(found[0] - expected).max()
print(f"largest difference between layer and loop: {difference:.1e}")
assert difference < 1e-5

# %% [markdown]
# ## What attention does not know
#
# The order. If the inputs come in another order, the outputs come in that order, and
# are otherwise the same. That is why the Transformer adds positions to its embeddings,
# which is where lesson 2 begins.

# %%
order = rng.permutation(10)
found = numpy(layer(ops.convert_to_tensor(stream)))
shuffled = numpy(layer(ops.convert_to_tensor(stream[:, order])))
difference = np.abs(shuffled - found[:, order]).max()
print(f"without positions, another order changes them by up to {difference:.0e}")
np.testing.assert_allclose(shuffled, found[:, order], atol=1e-5)
positions = layers.SinusoidalPositionalEncoding()
ordered = numpy(layer(positions(ops.convert_to_tensor(stream))))
shuffled = numpy(layer(positions(ops.convert_to_tensor(stream[:, order]))))
difference = np.abs(shuffled - ordered[:, order]).max()
print(f"with positions, another order changes the outputs by up to {difference:.2f}")
assert difference > 1e-2
print("done: every claim of this lesson was checked")

# %% [markdown]
# ## What was seen
#
# * Attention is a weighted mean of values. The weights are a softmax of how well each
#   key matches the query.
# * What a mask blocks has the weight 0, and changes nothing.
# * Without the division by √d_k the gradient dies out as d_k grows.
# * One head gives one mixture; two heads keep two neighbours apart.
# * Attention does not know the order of its inputs.
#
# ## Exercise
#
# Set `SHARP` to 1 in the section on heads, and draw the two heads again. How sharp must
# a query be for a head to see one word alone? Then give `attention` a mask with a row
# that blocks everything, in NumPy and in the layer: what do both give?
