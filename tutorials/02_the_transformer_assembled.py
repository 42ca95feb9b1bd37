# %% [markdown]
# # Lesson 2: the Transformer, assembled
#
# Figure 1 of *Attention Is All You Need*, put together from layers into a functional
# Keras model, with the shape after every step; what each sublayer is for; how many
# weights the model has and where they are, against Table 3 of the paper.
#
# What to expect: the assembled graph and `Transformer(config)` are the same function;
# every row of the paper's table is expressed by a few fields of a config, and its
# number of weights lies within 7 % of the printed one.
#
# Run it on another backend by setting `KERAS_BACKEND=jax`, `tensorflow` or `torch`
# before Python starts. The pictures go to the working directory, as
# `lesson_2_*.png`. `TUTORIAL_FAST=1` leaves out the building of the paper's base model,
# whose 63 million weights need a second or two.

# %%
import os

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import layers
from keras_transformer.config import PRESETS

FAST = bool(os.environ.get("TUTORIAL_FAST"))
keras.utils.set_random_seed(1)
print("backend:", keras.backend.backend())

# %% [markdown]
# ## From ids to vectors
#
# B sentences of S source tokens come as ids. Each id is looked up as a row of a matrix,
# times √D, and the position is added: sines and cosines of it, a pair for each
# frequency.
#
# $$
# PE_{(pos,\, 2i)} = \sin\left(pos / 10000^{2i / D}\right) \qquad
# PE_{(pos,\, 2i + 1)} = \cos\left(pos / 10000^{2i / D}\right)
# $$
#
# The id 1 begins a target, 2 ends a sentence, and 0 is padding.

# %%
B, S, T, D, F, H, N, V = 2, 5, 7, 16, 32, 2, 2, 50
source = np.array([[5, 6, 7, 8, 2], [9, 10, 2, 0, 0]])  # 2 ends a source, 0 fills
target = np.array([[1, 11, 12, 13, 14, 15, 16], [1, 17, 18, 19, 0, 0, 0]])

embedding = layers.TokenEmbedding(V, D, name="embedding")
vectors = embedding(ops.convert_to_tensor(source))
stream = layers.SinusoidalPositionalEncoding()(vectors)
print("ids", source.shape, "-> vectors", tuple(vectors.shape))
assert tuple(stream.shape) == (B, S, D)

table = layers.sinusoidal_table(100, 64)
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 3.8))
left.imshow(table, aspect="auto", cmap="RdBu")
left.set(xlabel="entry of the vector", ylabel="position", title="positions")
right.imshow(table @ table.T, cmap="Blues")
right.set(xlabel="position", ylabel="position", title="likeness of two positions")
figure.tight_layout()
figure.savefig("lesson_2_positions.png")

# %% [markdown]
# The likeness (the product of two rows) depends on the distance alone, which is what
# makes it easy for a head to look a fixed number of positions back.

# %%
likeness = table @ table.T
for first, second in ((10, 15), (70, 75), (10, 16), (70, 76)):
    print(f"likeness of {first} and {second}: {likeness[first, second]:.2f}")
np.testing.assert_allclose(likeness[10, 15], likeness[70, 75], rtol=1e-4)

# %% [markdown]
# ## A block
#
# A block of the encoder is two sublayers: self-attention, where each position gathers
# from all others, and a feed-forward network, which works on each position by itself.
# Around each stands the residual connection:
#
# $$
# \mathrm{LayerNorm}(x + \mathrm{Sublayer}(x))
# $$
#
# A block of the decoder has a third between the two: attention to the encoder's output.
#
# `AttentionBias` makes of the ids what is added to the scores: the masks of lesson 1,
# as 0 and very negative numbers. With `reverse=True` the transposed embedding matrix is
# the output projection (weight tying): the product of a vector with each row of it is
# the logit of that token.

# %%
padding = layers.AttentionBias(pad_id=0)(ops.convert_to_tensor(source))
memory = layers.EncoderBlock(F, H)(stream, attention_bias=padding)
print("encoder block", tuple(stream.shape), "->", tuple(memory.shape))

causal = layers.AttentionBias(causal=True)(ops.convert_to_tensor(target))
hidden = embedding(ops.convert_to_tensor(target))
hidden = layers.DecoderBlock(F, H)(
    hidden, memory, attention_bias=causal, cross_attention_bias=padding
)
logits = embedding(hidden, reverse=True)
print("decoder block", (B, T, D), "->", tuple(hidden.shape))
print("logits", tuple(logits.shape))
assert tuple(padding.shape) == (B, 1, 1, S) and tuple(causal.shape) == (1, 1, T, T)
assert tuple(logits.shape) == (B, T, V)

# %% [markdown]
# ## The functional model
#
# The same calls on `keras.Input`s give a graph: a `keras.Model` that can be summarized,
# drawn, saved and trained. Lengths are left open. This is figure 1, from bottom to top.

# %%
config = kt.TransformerConfig(
    vocabulary_size=V,
    hidden_dim=D,
    intermediate_dim=F,
    num_heads=H,
    num_encoder_layers=N,
    num_decoder_layers=N,
)


def assemble(config):
    """Source and target ids to logits, from single layers."""
    size, heads = config.intermediate_dim, config.num_heads
    rate = config.dropout
    embedding = layers.TokenEmbedding(
        config.vocabulary_size, config.hidden_dim, name="embedding"
    )
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")

    padding = layers.AttentionBias(config.pad_id, name="source_bias")(source)
    position = layers.SinusoidalPositionalEncoding(name="source_position")
    memory = position(embedding(source))
    memory = keras.layers.Dropout(rate, name="source_dropout")(memory)
    for i in range(config.num_encoder_layers):
        block = layers.EncoderBlock(size, heads, dropout=rate, name=f"encoder_{i}")
        memory = block(memory, attention_bias=padding)

    causal = layers.AttentionBias(causal=True, name="target_bias")(target)
    position = layers.SinusoidalPositionalEncoding(name="target_position")
    hidden = position(embedding(target))
    hidden = keras.layers.Dropout(rate, name="target_dropout")(hidden)
    for i in range(config.num_decoder_layers):
        block = layers.DecoderBlock(size, heads, dropout=rate, name=f"decoder_{i}")
        hidden = block(
            hidden, memory, attention_bias=causal, cross_attention_bias=padding
        )
    logits = embedding(hidden, reverse=True)
    return keras.Model({"source": source, "target": target}, logits, name="assembled")


assembled = assemble(config)
assembled.summary(line_length=100)

# %% [markdown]
# The drawn graph: each box is a call of a layer, the encoder on the left, the decoder
# on the right. The embedding is called three times: it is one matrix.


# %%
def calls_of(model):
    """{(layer, number of its call): [the calls whose outputs it takes]}, in order."""

    def sources(value):
        if isinstance(value, dict):
            if value.get("class_name") == "__keras_tensor__":
                name, call, _ = value["config"]["keras_history"]
                yield name, call
            else:
                for part in value.values():
                    yield from sources(part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                yield from sources(part)

    return {
        (layer["name"], number): list(sources(call))
        for layer in model.get_config()["layers"]
        for number, call in enumerate(layer["inbound_nodes"] or [{}])
    }


def draw(model, path):
    calls = calls_of(model)

    def depth(call):
        return max((depth(source) + 1 for source in calls[call]), default=0)

    def sees_target(call):
        return call[0] == "target" or any(map(sees_target, calls[call]))

    places, taken = {}, set()
    for call in sorted(calls, key=depth):
        x, y = (2.0 if sees_target(call) else 0.0), depth(call)
        while (x, y) in taken:
            x += 0.9
        taken.add((x, y))
        places[call] = (x, y)
    figure, axes = plt.subplots(figsize=(9, 0.55 * max(y for _, y in taken) + 1))
    for call, sources in calls.items():
        for source in sources:
            arrow = {"arrowstyle": "->", "color": "gray", "shrinkA": 12, "shrinkB": 12}
            axes.annotate("", places[call], places[source], arrowprops=arrow)
    for call, (x, y) in places.items():
        box = {"boxstyle": "round", "facecolor": "white", "edgecolor": "steelblue"}
        axes.text(x, y, call[0], ha="center", va="center", fontsize=8, bbox=box)
    axes.set(xlim=(-0.6, 3.5), ylim=(-0.6, max(y for _, y in taken) + 0.6))
    axes.axis("off")
    figure.savefig(path, bbox_inches="tight")
    return calls


calls = draw(assembled, "lesson_2_graph.png")
assert sum(name == "embedding" for name, _ in calls) == 3
assert sum("encoder_" in name or "decoder_" in name for name, _ in calls) == 2 * N

# %% [markdown]
# `Transformer(config)` is this graph, with the same names, and can decode step by step
# as well. With the same weights it is the same function.

# %%
model = kt.Transformer(config)
weights = {weight.path: weight for weight in assembled.weights}
assert set(weights) == {weight.path for weight in model.weights}
for weight in model.weights:
    weight.assign(weights[weight.path])


def logits_of(model, source, target):
    inputs = {"source": source, "target": target}
    inputs = {name: ops.convert_to_tensor(ids) for name, ids in inputs.items()}
    return ops.convert_to_numpy(model(inputs))


logits = logits_of(model, source, target)
difference = np.abs(logits - logits_of(assembled, source, target)).max()
print(f"largest difference of the logits: {difference:.1e}")
assert difference < 1e-5

# %% [markdown]
# And the masks do what they promise: a later word of the target changes no earlier
# logit, and a sentence in a padded batch gives what it gives alone.

# %%
changed = target.copy()
changed[:, 4:] = 40
changes = np.abs(logits_of(model, source, changed) - logits).max(axis=(0, 2))
print("change of the logits at each position:", changes.round(2))
assert not changes[:4].any()
alone = logits_of(model, source[1:, :3], target[1:, :4])
difference = np.abs(alone - logits[1:, :4]).max()
print(f"alone or in a padded batch, they differ by at most {difference:.1e}")
np.testing.assert_allclose(alone, logits[1:, :4], atol=1e-5)

# %% [markdown]
# ## The weights, counted
#
# With A = 2 D H (d_k + d_v) for the four projections of an attention, P = 2 D F + F + D
# for a feed-forward network and 2D for a normalization, a model of N blocks on each
# side has
#
# $$
# V D + N (A + P + 4 D) + N (2 A + P + 6 D)
# $$
#
# weights: one matrix serves as source embedding, target embedding and output. Below are
# the rows of Table 3 in which the paper prints a number, those of its groups (B) and
# (C) named after what they change, with its vocabulary of about 37 000 (it does not say
# the exact size).

# %%
PRINTED = {
    "base": 65,
    "b-head-dim-16": 58,
    "b-head-dim-32": 60,
    "c-2-layers": 36,
    "c-4-layers": 50,
    "c-8-layers": 80,
    "c-hidden-256": 28,
    "c-hidden-1024": 168,
    "c-intermediate-1024": 53,
    "c-intermediate-4096": 90,
    "big": 213,
}


def formula(config):
    d, f = config.hidden_dim, config.intermediate_dim
    a = 2 * d * config.num_heads * (config.head_dim + config.value_dim)
    p = 2 * d * f + f + d
    encoder = config.num_encoder_layers * (a + p + 4 * d)
    decoder = config.num_decoder_layers * (2 * a + p + 6 * d)
    return config.vocabulary_size * d + encoder + decoder


print(f"{'':20}{'N':>3}{'D':>6}{'F':>6}{'H':>4}{'d_k':>5}{'weights':>14}{'paper':>9}")
for name, millions in PRINTED.items():
    row = kt.TransformerConfig.from_preset(name, vocabulary_size=37_000)
    count = formula(row)
    print(
        f"{name:20}{row.num_encoder_layers:3}{row.hidden_dim:6}{row.intermediate_dim:6}"
        f"{row.num_heads:4}{row.head_dim:5}{count:14,}{millions:7} M"
    )
    assert count == row.num_weights
    assert abs(count / 1e6 / millions - 1.0) < 0.07, name
assert set(PRINTED) < set(PRESETS)
assert model.count_params() == formula(config)

if not FAST:
    base = kt.TransformerConfig.from_preset("base", vocabulary_size=37_000)
    assert kt.Transformer(base).count_params() == formula(base) == 63_045_632

# %% [markdown]
# Where they are: in `base`, 30 % in the one embedding matrix, 30 % in the projections
# of attention, 40 % in the feed-forward networks. `big` is twice as wide, so that what
# grows with D² has four times as many. `tiny` has most of its weights in the embedding:
# a small model wants a small vocabulary. Normalizations have too few to be seen.

# %%
parts = {}
for name in ("tiny", "base", "big"):
    row = kt.TransformerConfig.from_preset(name, vocabulary_size=37_000)
    d, f = row.hidden_dim, row.intermediate_dim
    blocks = row.num_encoder_layers + row.num_decoder_layers
    attentions = row.num_encoder_layers + 2 * row.num_decoder_layers
    norms = 2 * row.num_encoder_layers + 3 * row.num_decoder_layers
    parts[name] = {
        "embedding": 37_000 * d,
        "attention": attentions * 4 * d * d,
        "feed-forward": blocks * (2 * d * f + f + d),
        "normalization": norms * 2 * d,
    }
    assert sum(parts[name].values()) == row.num_weights

figure, axes = plt.subplots(figsize=(7, 3))
left = np.zeros(len(parts))
for part in parts["base"]:
    shares = [100 * its[part] / sum(its.values()) for its in parts.values()]
    axes.barh(list(parts), shares, left=left, label=part)
    left += shares
axes.set(xlabel="% of the weights")
axes.legend(ncols=4, loc="upper center", bbox_to_anchor=(0.5, 1.2), fontsize=8)
figure.tight_layout()
figure.savefig("lesson_2_weights.png")
share = parts["base"]["embedding"] / sum(parts["base"].values())
assert 0.29 < share < 0.31
print("done: every claim of this lesson was checked")

# %% [markdown]
# ## What was seen
#
# * Figure 1 of the paper is a dozen calls of layers.
# * The assembled graph and `Transformer(config)` are the same function.
# * Each row of the paper's Table 3 is a few fields of a config.
# * A closed formula gives the number of weights, and three tenths of those of `base`
#   are the embedding.
#
# ## Exercise
#
# Assemble a pre-norm model: call the blocks with `normalize_first=True`, and add what
# the config `normalize_first=True` adds besides. Compare it with `Transformer(config)`.
# How many weights does it have more, and where?
