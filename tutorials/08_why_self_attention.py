# %% [markdown]
# # Lesson 8: why self-attention?
#
# Table 1 of *Attention Is All You Need* compares what can mix the n positions of a
# sequence of vectors of size d: self-attention, recurrence, convolution with kernels of
# k positions, and self-attention restricted to r neighbours.
#
# | layer | complexity | sequential operations | longest path |
# |---|---|---|---|
# | self-attention | $O(n^2 d)$ | $O(1)$ | $O(1)$ |
# | recurrent | $O(n d^2)$ | $O(n)$ | $O(n)$ |
# | convolutional | $O(k n d^2)$ | $O(1)$ | $O(n / k)$ |
# | convolutional, dilated | $O(k n d^2)$ | $O(1)$ | $O(\log_k n)$ |
# | self-attention, restricted | $O(r n d)$ | $O(1)$ | $O(n / r)$ |
# | Neural GPU, n steps on a tape | $O(k n^2 d^2)$ | $O(n)$ | $O(n / k)$ |
# | memory network, K hops | $O(K n d)$ | $O(K)$ | $O(1)$, to the question |
#
# The last two rows are not the paper's. A Neural GPU takes n steps on a tape of n
# cells; as a layer it is measured here, as a model lesson 12 has it. A memory network
# (`models.MemoryNetwork`) reads n vectors for one question, K times, and the vectors do
# not see one another: it mixes no sequence, and so it stands in this table only.
#
# Here each column of the other rows is measured: time and memory of a layer as n grows;
# which of its parts wait for each other; how far what happens at one position reaches;
# how far apart two positions can be and still be copied; and, with the same tokenizer,
# `model.fit`, search and BLEU, what each makes of the same translation task with about
# the same number of weights.
#
# What to expect: a change at one position arrives at every later one through
# self-attention, exactly as far as their kernels and windows reach through convolutions
# and restricted attention, and weaker and weaker through an LSTM; on two CPU cores all
# of it takes about an hour. Results are kept in `lesson_8_results.json`: started again,
# the lesson goes on where it was; without that file it begins anew. `TUTORIAL_FAST=1`
# makes it a matter of seconds, with models that have learned nothing.

# %%
import json
import os
import time
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer import layers
from keras_transformer.data import phrasebook
from keras_transformer.models import KINDS

FAST = bool(os.environ.get("TUTORIAL_FAST"))
RESULTS = Path("lesson_8_results.json")
print("backend:", keras.backend.backend())


def remembered(key, measure):
    """`measure()`, or what it gave when the lesson ran before."""
    key = f"{'fast' if FAST else 'full'}, {keras.backend.backend()}, {key}"
    results = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    if key not in results:
        results[key] = measure()
        temporary = RESULTS.with_suffix(".tmp")
        temporary.write_text(json.dumps(results, indent=1))
        temporary.replace(RESULTS)
    return results[key]


def numpy(tensor):
    return ops.convert_to_numpy(tensor)


# %% [markdown]
# ## Time and memory of one layer
#
# A training step of a model that is one layer, on sequences of n vectors. Restricted
# attention is there twice. As a mask it is the formula: all n² scores are computed, and
# most are thrown away. `MultiHeadAttention(window=r)`, which `attention_window` makes
# in a model, computes only blocks of keys around each query, and so has the complexity
# of the table. The Neural GPU rewrites all n cells in each of its n steps. It stops at
# 256: at 1024 a step would take a minute.

# %%
D, ROWS = (16, 2) if FAST else (128, 8)
LENGTHS = [8, 32] if FAST else [8, 16, 32, 64, 128, 256, 512, 1024]
TIMED = 2 if FAST else 5


NEIGHBOURS = 4  # r


class MaskedAttention(keras.layers.Layer):
    """Attention of a sequence to itself; a mask leaves r neighbours."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.attention = layers.MultiHeadAttention(num_heads=4, head_dim=D // 4)

    def build(self, inputs_shape):
        self.attention.build(inputs_shape)

    def call(self, inputs):
        mask = layers.masks.local_mask(inputs.shape[1], NEIGHBOURS)
        return self.attention(inputs, attention_mask=mask)

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


class NeuralGPU(keras.layers.Layer):
    """n steps of one unit on a tape of n cells, (B, T, D) -> (B, T, D)."""

    def __init__(self, unroll=False, **kwargs):
        super().__init__(**kwargs)
        self.unroll = unroll
        self.unit = layers.ConvolutionalGatedRecurrentUnit(kernel_size=3)

    def build(self, inputs_shape):
        self.unit.build((None, None, 1, inputs_shape[-1]))

    def call(self, inputs):
        def step(state, _):
            return self.unit(state), None

        tape, positions = ops.expand_dims(inputs, 2), ops.arange(inputs.shape[1])
        if self.unroll:
            for _ in range(inputs.shape[1]):
                tape, _ = step(tape, None)
        else:
            tape, _ = ops.scan(step, tape, positions)
        return tape[:, :, 0]

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


MIXERS = {
    "self-attention": lambda: layers.MultiHeadAttention(4, D // 4),
    "restricted, r = 4": lambda: layers.MultiHeadAttention(
        4, D // 4, window=NEIGHBOURS
    ),
    "restricted, by a mask": MaskedAttention,
    "recurrent": lambda: keras.layers.LSTM(D, return_sequences=True),
    "convolutional, k = 3": lambda: layers.GatedConvolution(kernel_size=3),
    "Neural GPU, k = 3": NeuralGPU,
}
LONGEST = {"Neural GPU, k = 3": 256}


def cost(mixer, length):
    """Seconds and bytes of a training step, the better of a few."""
    inputs = keras.Input((length, D))
    model = keras.Model(inputs, MIXERS[mixer]()(inputs))
    model.compile("sgd", "mse")
    batch = np.random.default_rng(1).normal(size=(ROWS, length, D)).astype("float32")

    def step():
        model.train_on_batch(batch, batch)

    step()  # compiles
    seconds = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        step()
        seconds.append(time.perf_counter() - begin)
    before = backends.peak_memory(lambda: None)
    memory = max(backends.peak_memory(step) - before, 0)
    keras.utils.clear_session()
    return {"seconds": min(seconds), "bytes": memory}


def lengths_of(mixer):
    return [length for length in LENGTHS if length <= LONGEST.get(mixer, LENGTHS[-1])]


costs = {
    mixer: [
        remembered(f"cost of {mixer}, {length}", lambda m=mixer, n=length: cost(m, n))
        for length in lengths_of(mixer)
    ]
    for mixer in MIXERS
}
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.6), layout="constrained")
for mixer, measured in costs.items():
    found, milliseconds = lengths_of(mixer), [1e3 * its["seconds"] for its in measured]
    left.plot(found, milliseconds, "o-", label=mixer)
    memory = [max(its["bytes"] / 2**20, 0.1) for its in measured]
    right.plot(found, memory, "o-", label=mixer)
left.set(yscale="log", xlabel="n", ylabel="ms a training step")
right.set(yscale="log", xlabel="n", ylabel="MiB more than before")
for axes in (left, right):
    axes.set_xscale("log", base=2)
figure.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=6)
figure.savefig("lesson_8_cost.png")


def growth(mixer):
    """The exponent p of n^p between the two longest lengths."""
    first, last = (its["seconds"] for its in costs[mixer][-2:])
    return np.log(last / first) / np.log(2 if not FAST else LENGTHS[1] / LENGTHS[0])


for mixer in MIXERS:
    its = costs[mixer][-1]
    cost_there = f"{1e3 * its['seconds']:.0f} ms, {its['bytes'] / 2**20:.0f} MiB"
    print(
        f"{mixer:22} time grows with n^{growth(mixer):.1f}; "
        f"at {lengths_of(mixer)[-1]}: {cost_there}"
    )
if not FAST:  # by 1024 positions n² has begun to show
    assert growth("self-attention") > growth("convolutional, k = 3")
    assert growth("self-attention") > growth("restricted, r = 4")
    longest = {mixer: measured[-1] for mixer, measured in costs.items()}
    for quantity in ("seconds", "bytes"):
        its = longest["restricted, r = 4"][quantity]
        assert its < longest["self-attention"][quantity] / 2

# %% [markdown]
# ## Sequential operations
#
# What waits for what? The part of a layer that mixes positions is called once by
# attention and convolution, for all positions. A recurrent layer calls its cell for one
# position after the other, and a Neural GPU its unit for one step after the other: no
# number of processors shortens that.

# %%
PARTS = {  # what mixes, in the layer
    "self-attention": (MIXERS["self-attention"], lambda layer: layer),
    "recurrent": (
        lambda: keras.layers.RNN(keras.layers.LSTMCell(D), unroll=True),
        lambda layer: layer.cell,
    ),
    "convolutional, k = 3": (MIXERS["convolutional, k = 3"], lambda layer: layer),
    "Neural GPU, k = 3": (lambda: NeuralGPU(unroll=True), lambda layer: layer.unit),
}


def calls_in_turn(mixer, length):
    """How often what mixes is called in a forward pass, on what it gave before."""
    make, part_of = PARTS[mixer]
    layer, calls = make(), []
    layer.build((1, length, D))
    part = part_of(layer)
    call = part.call
    part.call = lambda *arguments, **options: (
        calls.append(1) or call(*arguments, **options)
    )
    layer(ops.zeros((1, length, D)))
    return len(calls)


turns = {mixer: [calls_in_turn(mixer, n) for n in (8, 16, 32)] for mixer in PARTS}
for mixer, counts in turns.items():
    print(f"{mixer:22} at 8, 16 and 32 positions: {counts}")
    assert counts in ([1, 1, 1], [8, 16, 32])

# %% [markdown]
# ## The models
#
# Four kinds of translation model with the same embeddings, residual connections and
# normalizations, and about the same number of weights; what mixes positions differs.
# All attend to the source, but for one: what the decoder of that knows of the source is
# its first state.

# %%
SIZE, WINDOW = (32, 2) if FAST else (128, 4)
TRANSFORMER = {"intermediate_dim": 2 * SIZE, "num_heads": 4}
CONVOLUTIONAL = {"num_encoder_layers": 3}  # they have fewer weights


def config_of(name, vocabulary_size, **fields):
    common = {
        "vocabulary_size": vocabulary_size,
        "hidden_dim": SIZE,
        "num_encoder_layers": 2,
        "num_decoder_layers": 2,
        "dropout": 0.1,
    }
    kind, own = {
        "self-attention": ("transformer", TRANSFORMER),
        "restricted": ("transformer", {**TRANSFORMER, "attention_window": WINDOW}),
        "recurrent": ("recurrent", {}),
        "recurrent, no attention": ("recurrent", {"attention_scoring": "none"}),
        "convolutional": ("convolutional", CONVOLUTIONAL),
        "dilated": ("convolutional", {**CONVOLUTIONAL, "max_dilation": 16}),
    }[name]
    return KINDS[kind].config_class(**{**common, **own, **fields})


def model_of(name, *arguments, **fields):
    config = config_of(name, *arguments, **fields)
    return KINDS[config.kind](config)


NAMES = [
    "self-attention",
    "restricted",
    "recurrent",
    "recurrent, no attention",
    "convolutional",
    "dilated",
]
for name in NAMES:
    print(f"{name:25}{config_of(name, 1000).num_weights:10,} weights")
    ratio = config_of(name, 1000).num_weights / config_of(NAMES[0], 1000).num_weights
    assert FAST or 0.85 < ratio < 1.15, name

# %% [markdown]
# ## How far a change arrives
#
# In a decoder that has learned nothing, one word of the target is changed. What
# changes in the outputs of later positions? This is the longest path, in its plainest
# form. The source says nothing here: it is always the same.

# %%
FILLER, LONG = 4, 24 if FAST else 200
SOURCE = [3, 2]


def arrivals(name):
    """The largest change of a logit, at each distance from the word that changed."""
    keras.utils.set_random_seed(1)
    model = model_of(name, 20)
    target = np.full((2, LONG), FILLER)
    target[1, 0] = FILLER + 1
    inputs = {"source": np.array([SOURCE, SOURCE]), "target": target}
    logits = numpy(model({n: ops.convert_to_tensor(a) for n, a in inputs.items()}))
    return [float(value) for value in np.abs(logits[1] - logits[0]).max(axis=-1)]


changes = {
    name: remembered(f"arrivals of {name}", lambda n=name: arrivals(n))
    for name in NAMES
    if name != "recurrent, no attention"
}
figure, axes = plt.subplots(figsize=(8, 4))
for name, change in changes.items():
    axes.plot(np.maximum(change, 1e-12), label=name)
axes.set(yscale="log", xlabel="distance", ylabel="change of the logits (0 at 1e-12)")
axes.legend()
figure.tight_layout()
figure.savefig("lesson_8_arrivals.png")

dilations = config_of("dilated", 20).dilations(2)
REACH = {
    "restricted": 2 * WINDOW,
    "convolutional": 2 * 2,
    "dilated": 2 * sum(dilations),
}
for name, reach in REACH.items():
    print(f"{name}: a change arrives at distance {reach} and no further")
    assert changes[name][reach] > 0.0
    assert max(changes[name][reach + 1 :]) < 1e-5  # rounding, or nothing at all
assert min(changes["self-attention"]) > 0.0
fading = changes["recurrent"]
print(
    f"recurrent: of a change, 1/{fading[0] / max(fading[15], 1e-12):.0f} is left at 15"
)
assert fading[15] < 0.1 * fading[0]

# %% [markdown]
# ## How far apart two positions can be and still be copied
#
# Now with training. The target is a symbol, fillers, and a question mark; after the
# question mark the symbol is to be said again. The distance is drawn anew for each row.

# %%
SYMBOLS, QUESTION = 8, FILLER + 1
DISTANCES = [2, 6] if FAST else [2, 4, 8, 16, 32, 64]
COPY_STEPS, COPY_ROWS = (2, 16) if FAST else (1500, 64)


def copies(count, rng, distances):
    """Inputs, labels and weights of `count` rows, and the place of each answer."""
    length = max(DISTANCES) + 1
    symbols = rng.integers(QUESTION + 1, QUESTION + 1 + SYMBOLS, count)
    places = rng.choice(distances, count)
    target = np.full((count, length), FILLER)
    target[:, 0] = symbols
    labels, weights = np.full((count, length), FILLER), np.zeros((count, length))
    rows = np.arange(count)
    target[rows, places], labels[rows, places] = QUESTION, symbols
    weights[rows, places] = 1.0 / count
    inputs = {"source": np.tile(SOURCE, (count, 1)), "target": target}
    return inputs, labels, weights.astype("float32"), places


def copied(name):
    """The share of symbols that are said again, at each distance."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    model = model_of(name, QUESTION + 1 + SYMBOLS, dropout=0.0)
    peak = keras.optimizers.schedules.CosineDecay(
        0.0, COPY_STEPS, warmup_target=2e-3, warmup_steps=COPY_STEPS // 10
    )
    loss = kt.training.LabelSmoothedCrossEntropy(0.0)
    model.compile(kt.training.adam(peak, global_clipnorm=1.0), loss)
    inputs, labels, weights, _ = copies(COPY_STEPS * COPY_ROWS, rng, DISTANCES)
    model.fit(
        inputs,
        labels,
        sample_weight=COPY_STEPS * weights,  # each batch's sum to 1
        batch_size=COPY_ROWS,
        shuffle=False,
        verbose=0,
    )
    shares = []
    for distance in DISTANCES:
        inputs, labels, _, places = copies(COPY_ROWS, rng, [distance])
        said = model.predict(inputs, batch_size=COPY_ROWS, verbose=0).argmax(axis=-1)
        rows = np.arange(COPY_ROWS)
        shares.append(float((said == labels)[rows, places].mean()))
    return shares


shares = {
    name: remembered(f"copies of {name}", lambda n=name: copied(n)) for name in changes
}
figure, axes = plt.subplots(figsize=(8, 4))
for width, (name, its) in zip(range(6, 1, -1), shares.items(), strict=True):
    axes.plot(DISTANCES, its, "o-", linewidth=width, label=name)  # none hides another
axes.axhline(1 / SYMBOLS, color="gray", linestyle=":")
axes.set_xscale("log", base=2)
axes.set(xlabel="distance", ylabel="copied rightly", ylim=(0, 1.05))
axes.legend()
figure.tight_layout()
figure.savefig("lesson_8_copies.png")
for name, its in shares.items():
    print(f"{name:25}", dict(zip(DISTANCES, its, strict=True)))
if not FAST:
    assert min(shares["self-attention"]) > 0.95
    for name, reach in REACH.items():
        for distance, share in zip(DISTANCES, shares[name], strict=True):
            assert share > 0.9 if distance <= reach else share < 0.4, (name, distance)

# %% [markdown]
# ## The same translation task
#
# English to German on the embedded phrasebook: one tokenizer, the same batches in the
# same order, the same steps and schedule, beam search with the same beam, BLEU on the
# same sentences, which none has seen. Without dropout, which only slows so short a
# training.

# %%
STEPS, TEST_LINES = (2, 2) if FAST else (1600, 300)
train, test = (phrasebook.load("en", "de", split) for split in ("train", "test"))
if FAST:
    train = tuple(side[:60] for side in train)
test = tuple(side[:TEST_LINES] for side in test)
tokenizer = kt.data.Tokenizer.train(
    train[0] + train[1], 400 if FAST else 3000, split_digits=True
)
pairs, _ = kt.data.encode_pairs(
    kt.data.ParallelText(*train), tokenizer, tokenizer, max_length=128
)
batches = kt.data.TokenBatches(
    pairs, 256 if FAST else 1536, max_buckets=1 if FAST else 8
)


def translated(name):
    """BLEU, loss, and target tokens a second in training without the compilation."""
    keras.utils.set_random_seed(1)
    model = model_of(name, tokenizer.vocabulary_size, dropout=0.0)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, STEPS, warmup_target=5e-3, warmup_steps=max(STEPS // 7, 1)
    )
    model.compile(
        kt.training.adam(rate, global_clipnorm=1.0),
        kt.training.LabelSmoothedCrossEntropy(0.1),
        metrics=[kt.training.NegativeLogLikelihood()],
    )
    seen = {}
    for i in range(min(STEPS, len(batches))):
        seen.setdefault(tuple(ids.shape for ids in batches[i][0].values()), i)
    first = min(max(seen.values()) + 1, STEPS // 2)  # every shape is compiled by then
    for begin, count in ((0, first), (first, STEPS - first)):
        start = time.perf_counter()
        history = model.fit(
            batches.from_step(begin), steps_per_epoch=count, shuffle=False, verbose=0
        )
        seconds = time.perf_counter() - start
    tokens = sum(int((batches[first + i][1] != 0).sum()) for i in range(STEPS - first))
    translator = kt.Translator(model, tokenizer)
    hypotheses = translator.translate(test[0], beam_size=2 if FAST else 4)
    (bleu,) = kt.evaluation.evaluate(hypotheses, test[1], metrics=("bleu",))
    assert np.isfinite(history.history["loss"][-1])
    return {"bleu": bleu.score, "tokens_per_second": tokens / seconds}


quality = {
    name: remembered(f"translation of {name}", lambda n=name: translated(n))
    for name in (NAMES[::3] if FAST else NAMES)
}
if not FAST:
    scores = {name: its["bleu"] for name, its in quality.items()}
    assert scores["self-attention"] > 70
    assert scores["recurrent, no attention"] < scores["recurrent"]

# %% [markdown]
# ## The table, measured
#
# `measured` is the growth of the time; `reach`, how far a change arrives; `copied`, the
# longest distance at which more than 90 % of the symbols are said again, with `-` where
# it was not tried. The last row is a layer alone: its steps are as many as there are
# positions, so that a change arrives everywhere.

# %%
ROWS_OF_TABLE = [
    ("self-attention", "self-attention", "O(n² d)", "O(1)", "O(1)"),
    ("restricted", "restricted, r = 4", "O(r n d)", "O(1)", "O(n/r)"),
    ("recurrent", "recurrent", "O(n d²)", "O(n)", "O(n)"),
    ("recurrent, no attention", "recurrent", "O(n d²)", "O(n)", "O(n)"),
    ("convolutional", "convolutional, k = 3", "O(k n d²)", "O(1)", "O(n/k)"),
    ("dilated", "convolutional, k = 3", "O(k n d²)", "O(1)", "O(log n)"),
    ("Neural GPU", "Neural GPU, k = 3", "O(k n² d²)", "O(n)", "O(n/k)"),
]
print(
    f"{'':24}{'complexity':12}{'measured':10}{'sequential':12}{'path':10}{'reach':>6}"
    f"{'copied':>8}{'tokens/s':>10}{'BLEU':>7}"
)
for name, mixer, complexity, sequential, path in ROWS_OF_TABLE:
    reach = REACH.get(name, "all")
    copied_at = dict(
        zip(DISTANCES, shares.get(name, [0.0] * len(DISTANCES)), strict=True)
    )
    right = [distance for distance, share in copied_at.items() if share > 0.9]
    speed, bleu = "-", "-"
    if name in quality:
        speed = f"{quality[name]['tokens_per_second']:.0f}"
        bleu = f"{quality[name]['bleu']:.1f}"
    print(
        f"{name:24}{complexity:12}n^{growth(mixer):<8.1f}{sequential:12}{path:10}"
        f"{reach:>6}{max(right, default='-'):>8}{speed:>10}{bleu:>7}"
    )
print("done: every claim of this lesson was checked")

# %% [markdown]
# ## Why self-attention does not win here
#
# Self-attention is behind the other models with attention here: 91.4 BLEU, where they
# have 97 to 99. In the paper it is ahead, after 100 000 steps of 25 000 tokens. Here a
# model is trained for 1600 steps of 1536 tokens, on short sentences.
#
# Recurrent and convolutional layers know which words are neighbours before they have
# learned anything. In these sentences neighbours decide most. Self-attention has to
# learn from the positions where to look. The restricted model shows it: it has the same
# number of weights, but sees four words to either side only, and has 97.2.
#
# So the table's columns are reasons to expect self-attention to win where sentences
# and training are long. They are no promise for every small task.

# %% [markdown]
# ## What was seen
#
# * The time of self-attention grows almost with the square of the length, that of
#   recurrence and convolution with the length. Restricted attention, where only blocks
#   of scores are computed, takes a fifth of the time and of the memory of
#   self-attention at 1024 positions; with a mask over all scores it saves nothing.
# * A Neural GPU does n times the work of a layer and holds n tapes for the backward
#   pass: 4.6 GiB at 256 positions.
# * Attention and convolution mix all positions in one go; an LSTM and a Neural GPU take
#   turns as many as there are positions.
# * A change reaches every later position through self-attention. Kernels and windows
#   end, and an LSTM forgets most of it.
# * What is out of reach cannot be copied.
# * On a small task of short sentences, layers that know neighbours from the start win.
#
# ## Exercise
#
# Give self-attention 8000 steps in place of 1600, with the same schedule, and see when
# it overtakes the others. Then keep the 1600 steps and set `attention_window` to 2, 8
# and 16: which width is best, and why does a wider one lose?
