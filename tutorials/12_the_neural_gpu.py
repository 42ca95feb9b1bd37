# %% [markdown]
# # Lesson 12: the Neural GPU
#
# One of the models that *Attention Is All You Need* sets out from has no attention: the
# Extended Neural GPU (Kaiser and Bengio, 2016), after the Neural GPU (Kaiser and
# Sutskever, 2015). It writes the input on a tape and rewrites the whole tape by the
# same small convolutions, once for each symbol of the input. Then the output stands on
# the tape. A step is what a processor does in a cycle, and training finds the program.
#
# Here it learns to reverse a sequence and to add binary numbers from examples of at
# most 20 symbols. A Transformer with about as many weights learns the same. Both are
# then given up to 100 symbols.
#
# What to expect: both solve what they were trained for. Beyond 20 symbols the
# Transformer guesses, and the Neural GPU goes on reversing: at 40 symbols at least 99 %
# are right. Its price is measured, too: steps that wait for each other, as many as
# there are symbols. `TUTORIAL_FAST=1` makes it a matter of seconds, with models that
# have learned nothing. The pictures go to the working directory.

# %%
import os
import time

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import layers
from keras_transformer.layers.convolutional_gru import sigmoid_with_cutoff
from keras_transformer.models import NeuralGPU

FAST = bool(os.environ.get("TUTORIAL_FAST"))
print("backend:", keras.backend.backend())


def numpy(tensor):
    return ops.convert_to_numpy(tensor)


# %% [markdown]
# ## A gate that can be closed
#
# The unit of the tape is a GRU whose products with matrices are convolutions. Where its
# update gate is 1, a cell keeps what it holds. A sigmoid is never 1: after 100 steps
# with a gate of 0.99, little is left. So the sigmoid is stretched a little and cut off
# at 0 and 1.

# %%
scores = ops.convert_to_tensor([-6.0, -3.0, 0.0, 3.0, 6.0])
plain, cut = numpy(ops.sigmoid(scores)), numpy(sigmoid_with_cutoff(scores))
print("scores:           ", numpy(scores))
print("sigmoid:          ", plain.round(4))
print("with the cut-off: ", cut.round(4))
print(f"left after 100 steps at 6: {plain[-1] ** 100:.2f} and {cut[-1] ** 100:.2f}")
assert cut[0] == 0.0 and cut[-1] == 1.0

# %% [markdown]
# ## Steps that wait for each other
#
# In a step a cell sees only its neighbours. How many steps until the first cell knows
# of the last? On a tape of zeros, with weights that are all the same, one cell is
# changed, and the steps are counted until the change arrives at the other end.

# %%
SIZE = 8 if FAST else 48
LENGTHS = [8, 16] if FAST else [8, 16, 32, 64]


def step_of(units):
    """One step of a Neural GPU as a Keras model, of tapes (B, T, 1, D)."""
    tape = keras.Input((None, 1, SIZE))
    state = tape
    for unit in units:
        state = unit(state)
    return keras.Model(tape, state)


def steps_until_it_arrives(length):
    weights = keras.initializers.Constant(2 / SIZE)  # no change fades soon
    step = step_of(
        layers.ConvolutionalGatedRecurrentUnit(3, weights, "zeros") for _ in range(2)
    )
    tapes = np.zeros((2, length, 1, SIZE), "float32")
    tapes[1, -1] = 1.0
    states, count = ops.convert_to_tensor(tapes), 0
    while True:
        first, second = numpy(states)[:, 0]
        if (first != second).any():
            return count
        states, count = step(states), count + 1


arrivals = [steps_until_it_arrives(length) for length in LENGTHS]
print("steps until a change arrives:", dict(zip(LENGTHS, arrivals, strict=True)))
for length, count in zip(LENGTHS, arrivals, strict=True):
    # Two units a step, and each brings it to the next cell.
    assert count == -(-(length - 1) // 2)

# %% [markdown]
# The path from one symbol to another grows with their distance, O(n). So a Neural GPU
# must take O(n) steps, and it takes n. Each computes n cells: O(n²) in all, as self-
# attention. But the steps of a layer of attention do not wait for each other: O(1). The
# time of a training step shows it, here for one row, where a processor has little else
# to do at once.

# %%
TIMED = 1 if FAST else 5


class Steps(keras.layers.Layer):
    """n steps of one unit on a tape of n cells, (B, T, D) -> (B, T, D)."""

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.unit = layers.ConvolutionalGatedRecurrentUnit()

    def build(self, inputs_shape):
        self.unit.build((None, None, 1, inputs_shape[-1]))

    def call(self, inputs):
        tape = ops.expand_dims(inputs, 2)
        positions = ops.arange(inputs.shape[1])
        state, _ = ops.scan(lambda s, _: (self.unit(s), None), tape, positions)
        return state[:, :, 0]

    def compute_output_shape(self, inputs_shape):
        return inputs_shape


MIXERS = {
    "Neural GPU, k = 3": Steps,
    "recurrent": lambda: keras.layers.LSTM(SIZE, return_sequences=True),
    "self-attention": lambda: layers.MultiHeadAttention(4, SIZE // 4),
}


def seconds(mixer, length):
    """Of a training step of one layer and one row, the best of a few."""
    inputs = keras.Input((length, SIZE))
    model = keras.Model(inputs, MIXERS[mixer]()(inputs))
    model.compile("sgd", "mse")
    batch = np.random.default_rng(1).normal(size=(1, length, SIZE)).astype("float32")
    model.train_on_batch(batch, batch)  # compiles
    found = []
    for _ in range(TIMED):
        begin = time.perf_counter()
        model.train_on_batch(batch, batch)
        found.append(time.perf_counter() - begin)
    return min(found)


times = {name: [seconds(name, length) for length in LENGTHS] for name in MIXERS}
print(f"{'':20}{'complexity':12}{'sequential':12}{'path':8}{'measured':10} ms at n")
for name, complexity, sequential, path in (
    ("Neural GPU, k = 3", "O(k n² d²)", "O(n)", "O(n/k)"),
    ("recurrent", "O(n d²)", "O(n)", "O(n)"),
    ("self-attention", "O(n² d)", "O(1)", "O(1)"),
):
    first, last = times[name][-2:]
    growth = np.log(last / first) / np.log(LENGTHS[-1] / LENGTHS[-2])
    ms = " ".join(f"{1e3 * t:.1f}" for t in times[name])
    print(f"{name:20}{complexity:12}{sequential:12}{path:8}n^{growth:<8.1f} {ms}")
if not FAST:
    assert times["Neural GPU, k = 3"][-1] > times["self-attention"][-1]

# %% [markdown]
# ## Two tasks
#
# Rows of symbols, and rows of the same length as the answer. To reverse: four symbols.
# To add: two binary numbers of equal length with a + in between, all digits beginning
# with the last; what the sum leaves free is filled up with blanks.

# %%
PAD, START, FIRST = 0, 1, 2
SYMBOLS = 4  # of both tasks; of the addition these are 0, 1, + and the blank
PLUS, BLANK = FIRST + 2, FIRST + 3
LONGEST = 6 if FAST else 20


def reversal(length, rng):
    symbols = rng.integers(FIRST, FIRST + SYMBOLS, length)
    return symbols, symbols[::-1]


def addition(length, rng):
    """Of a sum with `length` symbols, or one less where that is even."""
    digits = (length - 1) // 2
    terms = rng.integers(0, 2, (2, digits))
    total = sum(int(2**i) * int(bit) for term in terms for i, bit in enumerate(term))
    answer = [total >> i & 1 for i in range(digits + 1)]
    source = [*terms[0] + FIRST, PLUS, *terms[1] + FIRST]
    blanks = [BLANK] * (len(source) - len(answer))
    return source, [FIRST + bit for bit in answer] + blanks


TASKS = {"reversal": reversal, "addition": addition}


def rows_of(task, lengths, width, rng):
    """Sources and answers (B, width), filled up with padding."""
    sources, answers = np.zeros((2, len(lengths), width), "int32")
    for source, answer, length in zip(sources, answers, lengths, strict=True):
        symbols, said = TASKS[task](length, rng)
        source[: len(symbols)], answer[: len(said)] = symbols, said
    return sources, answers


for task in TASKS:
    source, answer = rows_of(task, [7], 7, np.random.default_rng(1))
    print(f"{task}: {source[0]} -> {answer[0]}")

# %% [markdown]
# ## Three models
#
# The Neural GPU here has a tape of one column, 48 numbers in a cell, and two units a
# step. The extended one has a decoder besides, which says one symbol a step and sees
# those before it on an output tape. The Transformer is small, so that it has about as
# many weights as the first.


# %%
def neural_gpu(output_tape=False):
    return NeuralGPU(FIRST + SYMBOLS, width=1, hidden_dim=SIZE, output_tape=output_tape)


def transformer():
    config = kt.TransformerConfig(
        vocabulary_size=FIRST + SYMBOLS,
        hidden_dim=32,
        intermediate_dim=64,
        num_heads=4,
        num_encoder_layers=2,
        num_decoder_layers=2,
        dropout=0.0,
    )
    return kt.Transformer(config)


MODELS = {
    "Neural GPU": neural_gpu,
    "Extended Neural GPU": lambda: neural_gpu(output_tape=True),
    "Transformer": transformer,
}
for name, make in MODELS.items():
    model = make()
    if not model.built:
        model.build()
    print(f"{name:20}{model.count_params():8,} weights")

# %% [markdown]
# ## Learning, the short ones first
#
# A machine of n steps gets its gradient through all of them, and nobody finds a program
# of 20 steps at once. So training begins with a few symbols, and longer rows come where
# the loss is small: a curriculum. Some rows are always longer than those learned by
# now. Adam, gradients clipped to a norm of 1, 32 rows a batch. The other tricks of the
# papers (dropout, gradient noise, relaxed sharing of weights) are not needed for this.

# %%
ROWS = 4 if FAST else 32
WIDTHS = [LONGEST] if FAST else [6, 12, 20]  # what rows are filled up to
STEPS = {
    "Neural GPU": 2 if FAST else 800,
    "Extended Neural GPU": 2 if FAST else 1500,
    "Transformer": 2 if FAST else 2000,
}


def inputs_of(model, sources, answers):
    if isinstance(model, NeuralGPU) and not model.output_tape:
        return sources
    before = np.pad(answers[:, :-1], ((0, 0), (1, 0)), constant_values=START)
    return {"source": sources, "target": before}


def trained(name, task):
    """A model that has learned a task, and its loss of each step."""
    keras.utils.set_random_seed(1)
    rng = np.random.default_rng(1)
    model = MODELS[name]()
    model.compile(
        keras.optimizers.Adam(2e-3, global_clipnorm=1.0, epsilon=1e-6),
        kt.training.LabelSmoothedCrossEntropy(0.0),
    )
    known, since, losses = 5, 0, []
    begin = time.perf_counter()
    for step in range(STEPS[name]):
        shortest, longest = 3, min(known, LONGEST)
        draw = rng.random()
        if draw < 0.2:
            longest = min(known + 6, LONGEST)
        elif draw < 0.6:
            shortest = max(longest - 3, 3)
        lengths = rng.integers(shortest, longest + 1, ROWS)
        width = min(width for width in WIDTHS if width >= longest)
        sources, answers = rows_of(task, lengths, width, rng)
        weights = (answers != PAD) / (answers != PAD).sum()
        model.reset_metrics()
        inputs = inputs_of(model, sources, answers)
        losses.append(model.train_on_batch(inputs, answers, weights.astype("float32")))
        if step - since >= 20 and np.mean(losses[-20:]) < 0.15:
            known, since = known + 2, step
    minutes = (time.perf_counter() - begin) / 60
    print(
        f"{task}, {name}: loss {np.mean(losses[-20:]):.4f} after {minutes:.1f} minutes"
    )
    return model, [float(loss) for loss in losses]


# %% [markdown]
# ## Longer than ever seen
#
# 64 rows of each length. The Neural GPU says all symbols at once, the extended one each
# after those it said. The Transformer is even told which symbols come before: it cannot
# be led astray by an error of its own.

# %%
TESTED = [6, 12] if FAST else [20, 40, 80, 100]
TEST_ROWS = 4 if FAST else 64


def said_by(model, sources, answers):
    if isinstance(model, NeuralGPU):
        return numpy(model.greedy(sources))
    inputs = inputs_of(model, sources, answers)
    logits = model.predict(inputs, batch_size=TEST_ROWS, verbose=0)
    return logits.argmax(axis=-1)


def score(model, task, length):
    """The shares of symbols and of whole rows that are right."""
    length -= task == "addition" and length % 2 == 0  # sums are odd in length
    rng = np.random.default_rng(2)
    sources, answers = rows_of(task, [length] * TEST_ROWS, length, rng)
    right = said_by(model, sources, answers) == answers
    return float(right.mean()), float(right.all(axis=1).mean())


RUNS = [
    ("reversal", "Neural GPU"),
    ("reversal", "Extended Neural GPU"),
    ("reversal", "Transformer"),
    ("addition", "Neural GPU"),
    ("addition", "Transformer"),
]
models, losses, scores = {}, {}, {}
for run in RUNS:
    task, name = run
    models[run], losses[run] = trained(name, task)
    scores[run] = [score(models[run], task, length) for length in TESTED]

print(f"{'% of the symbols, of the rows':38}", *(f"{n:>13}" for n in TESTED))
for (task, name), its in scores.items():
    shares = [f"{100 * symbols:6.1f} {100 * rows:6.1f}" for symbols, rows in its]
    print(f"{task:10}{name:28}", *shares)

# %%
figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4))
for (task, name), its in scores.items():
    style = "o-" if task == "reversal" else "o--"
    right.plot(
        TESTED, [100 * symbols for symbols, _ in its], style, label=f"{task}, {name}"
    )
    if name == "Neural GPU":
        left.plot(losses[task, name], label=f"{task}, {name}", linewidth=0.7)
left.set(yscale="log", xlabel="step", ylabel="loss of the batch")
left.legend()
right.axvspan(0, LONGEST, color="0.9")
right.set(xlabel="symbols (gray: seen in training)", ylabel="% of the symbols right")
right.set(ylim=(0, 103), xlim=(0, 1.05 * TESTED[-1]))
right.legend()
figure.tight_layout()
figure.savefig("lesson_12_lengths.png")

for its in scores.values():
    assert all(0.0 <= share <= 1.0 for pair in its for share in pair)
if not FAST:
    for name in MODELS:
        assert scores["reversal", name][0][0] > 0.95, name
    assert scores["reversal", "Neural GPU"][1][0] >= 0.99
    assert scores["reversal", "Transformer"][1][0] < 0.9

# %% [markdown]
# ## The program at work
#
# What would be said if the machine stopped after s steps? Each row of the picture is
# the tape after a step, each colour a symbol. At the top is the input, at the bottom
# the answer.

# %%
model = models["reversal", "Neural GPU"]
source, answer = rows_of("reversal", [LONGEST], LONGEST, np.random.default_rng(3))
state = ops.expand_dims(model.source_embedding(source), 2)
said = []
for _ in range(LONGEST):
    for unit in model.encoder_layers:
        state = unit(state)
    logits = model.output_embedding(state[:, :, 0], reverse=True)
    said.append(numpy(logits)[0].argmax(axis=-1))
figure, axes = plt.subplots(figsize=(7, 5))
axes.imshow([source[0], *said, answer[0]], cmap="tab10", vmin=0, vmax=9)
axes.set(xlabel="position", ylabel="step")
figure.tight_layout()
figure.savefig("lesson_12_tape.png")
np.testing.assert_array_equal(said[-1], numpy(model.greedy(source))[0])
print("done: every claim of this lesson was checked")

# %% [markdown]
# ## What was seen
#
# * A gate with a cut-off keeps a value for ever: nothing fades in 100 steps.
# * From examples of 20 symbols the Neural GPU finds a program that also reverses 100;
#   the Transformer, at positions that it has never seen, does not.
# * The extended model learns the task, too, but what it says begins with what it said:
#   on rows of twice the length it goes astray.
# * Addition is learned at the lengths of training and carries no further, with either.
#   The paper searched hundreds of settings of the training for one that does.
# * The price is sequential: as many steps as symbols, where attention needs one.
#
# ## Exercise
#
# Replace the cut-off by a plain sigmoid. At what length does reversal break down now?
# Then train on at most 10 symbols only: how far does the program carry?
