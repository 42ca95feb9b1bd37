# %% [markdown]
# # Lesson 9: encoder only, decoder only
#
# The two halves of the Transformer went separate ways. BERT (Devlin et al., 2018) is an
# encoder: it sees a sentence from both sides and learns by filling gaps. GPT (Radford
# et al., 2018) is a decoder without a source: it sees what came before and learns to
# say what comes next. Here both are put together from the same block and differ in one
# argument, the causal mask.
#
# What to expect: the first fills a gap in a sentence, with what stands on both sides in
# mind; the second goes on with a sentence that was begun; and where the beginning of a
# sentence is to be guessed, which only the rest of it tells, the one that sees both
# sides gets more right. About five minutes on two CPU cores; `TUTORIAL_FAST=1` makes it
# a matter of seconds, with models that have learned little.
#
# Run it on another backend by setting `KERAS_BACKEND=jax`, `tensorflow` or `torch`
# before Python starts. The picture goes to the working directory, as
# `lesson_9_guesses.png`.

# %%
import os
import re

import keras
import matplotlib.pyplot as plt
import numpy as np
from keras import ops

import keras_transformer as kt
from keras_transformer import layers
from keras_transformer.data import phrasebook

FAST = bool(os.environ.get("TUTORIAL_FAST"))
STEPS, ROWS, LENGTH = (8, 16, 50) if FAST else (1200, 64, 50)
D, F, HEADS, BLOCKS = (32, 64, 2, 1) if FAST else (128, 256, 4, 2)
keras.utils.set_random_seed(1)
rng = np.random.default_rng(1)
print("backend:", keras.backend.backend())

# %% [markdown]
# ## Sentences
#
# English sentences of the embedded phrasebook, as rows of ids filled up with padding.
# Only those with digits, which are long: they tell of dates, times and prices, so that
# there is something on both sides of a gap. The vocabulary gets one entry more: the
# gap.

# %%
train, test = (
    [text for text in phrasebook.load("en", "de", split)[0] if re.search(r"\d", text)]
    for split in ("train", "test")
)
if FAST:
    train = train[:1000]
tokenizer = kt.data.Tokenizer.train(train, 1000, split_digits=True)
PAD, START, END, GAP = 0, 1, 2, tokenizer.vocabulary_size


def rows_of(sentences):
    rows = [[*ids, END] for ids in tokenizer.encode(sentences)]
    rows = [ids for ids in rows if len(ids) <= LENGTH]
    return np.array([ids + [PAD] * (LENGTH - len(ids)) for ids in rows], "int32")


train, test = rows_of(train), rows_of(test[: 100 if FAST else None])
print(f"{len(train)} sentences of at most {LENGTH} tokens to learn from")

# %% [markdown]
# ## One model, twice
#
# Embedding and positions, blocks of self-attention and feed-forward network, and the
# transposed embedding matrix as output projection. `EncoderBlock` is the name of the
# paper's block without attention to a source; with a causal bias it is what GPT is made
# of.


# %%
def language_model(causal):
    """Ids (B, T) -> logits (B, T, V)."""
    embedding = layers.TokenEmbedding(GAP + 1, D, name="embedding")
    ids = keras.Input((LENGTH,), dtype="int32")
    bias = layers.AttentionBias(PAD, causal=causal)(ids)
    hidden = layers.SinusoidalPositionalEncoding()(embedding(ids))
    for index in range(BLOCKS):
        block = layers.EncoderBlock(F, HEADS, dropout=0.1, name=f"block_{index}")
        hidden = block(hidden, attention_bias=bias)
    return keras.Model(ids, embedding(hidden, reverse=True))


bert, gpt = language_model(causal=False), language_model(causal=True)
assert bert.count_params() == gpt.count_params()


def changed_by_the_last_token(model):
    """Whether the first output knows of the last input."""
    ids = np.full((2, LENGTH), 7)
    ids[1, -1] = 8
    first, second = ops.convert_to_numpy(model(ops.convert_to_tensor(ids)))
    return bool(np.abs(first - second)[0].max() > 0)


print("weights of each model:", f"{bert.count_params():,}")
for name, model in (("encoder", bert), ("decoder", gpt)):
    print(f"{name}: the first output depends on the last input:", end=" ")
    print(changed_by_the_last_token(model))
assert changed_by_the_last_token(bert)
assert not changed_by_the_last_token(gpt)

# %% [markdown]
# ## Learning
#
# The encoder gets sentences with gaps, one token of seven, and is asked what stood
# there. The decoder gets each sentence moved by one and is asked for what comes next.
# The weights of a batch sum to 1: the loss is the mean over the tokens asked for.


# %%
def drawn():
    return train[rng.integers(0, len(train), STEPS * ROWS)]


def with_gaps(sentences):
    gaps = (sentences != PAD) & (rng.random(sentences.shape) < 1 / 7)
    gaps[:, 0] |= ~gaps.any(axis=1)
    return np.where(gaps, GAP, sentences), gaps


def moved(sentences):
    return np.pad(sentences[:, :-1], ((0, 0), (1, 0)), constant_values=START)


def fit(model, inputs, labels, asked):
    weights = asked.reshape(STEPS, -1).astype("float32")
    weights = weights / weights.sum(axis=1, keepdims=True)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, STEPS, warmup_target=3e-3, warmup_steps=max(STEPS // 10, 1)
    )
    loss = kt.training.LabelSmoothedCrossEntropy(0.0)
    model.compile(kt.training.adam(rate), loss)
    # Twice half of the steps, to see the loss fall.
    losses = []
    half = STEPS // 2 * ROWS
    for part in (slice(0, half), slice(half, 2 * half)):
        history = model.fit(
            inputs[part],
            labels[part],
            sample_weight=weights.reshape(labels.shape)[part],
            batch_size=ROWS,
            shuffle=False,
            verbose=0,
        )
        losses.append(history.history["loss"][0])
    return losses


sentences = drawn()
gapped, gaps = with_gaps(sentences)
losses = {
    "encoder": fit(bert, gapped, sentences, gaps),
    "decoder": fit(gpt, moved(sentences), sentences, sentences != PAD),
}
for name, (first, second) in losses.items():
    print(
        f"{name}: loss {first:.2f} in the first half of the training, then {second:.2f}"
    )
    assert second < first


def logits_of(model, ids):
    return model.predict(ids, batch_size=ROWS, verbose=0)


# %% [markdown]
# ## Filling a gap
#
# Every token of a sentence in turn is made a gap. In brackets is what the encoder
# thinks most likely there; a capital X marks where it is wrong. `▁` stands for a space,
# `</s>` for the end of the sentence.

# %%
for row in test[:3]:
    count = int((row != PAD).sum())
    ids = np.repeat(row[None], count, axis=0)
    ids[np.arange(count), np.arange(count)] = GAP
    guesses = logits_of(bert, ids)[np.arange(count), np.arange(count), :GAP].argmax(-1)
    pieces = tokenizer.pieces([int(i) for i in guesses])
    marks = [
        "" if guess == right else "X"
        for guess, right in zip(guesses, row, strict=False)
    ]
    print(tokenizer.decode([[int(i) for i in row[: count - 1]]])[0])
    print("  ", " ".join(f"[{p}]{m}" for p, m in zip(pieces, marks, strict=True)))

# %% [markdown]
# ## Going on
#
# The decoder gets the beginning of a sentence and takes its likeliest token, again and
# again, until the end.


# %%
def go_on(text):
    (ids,) = tokenizer.encode([text])
    while len(ids) < LENGTH - 1 and END not in ids:
        row = np.full((1, LENGTH), PAD, "int32")
        row[0, : len(ids) + 1] = [START, *ids]
        ids.append(int(logits_of(gpt, row)[0, len(ids), :GAP].argmax()))
    return tokenizer.decode([[i for i in ids if i != END]])[0]


for beginning in ("Room", "The train", "I would like"):
    whole = go_on(beginning)
    print(f"{beginning} ... -> {whole}")
    assert whole.startswith(beginning)

# %% [markdown]
# ## Both sides or one
#
# The same tokens, guessed by both: the encoder sees the rest of the sentence, the
# decoder what stands before. In the first third of a sentence that is little; in the
# last third it is nearly all there is to see. So the two are counted there separately.

# %%
gapped, gaps = with_gaps(test)
right = {
    "encoder (both sides)": logits_of(bert, gapped).argmax(-1) == test,
    "decoder (what came before)": logits_of(gpt, moved(test)).argmax(-1) == test,
}
thirds = 3 * np.arange(LENGTH) // (test != PAD).sum(axis=1, keepdims=True)
parts = {
    "first third": gaps & (thirds == 0),
    "second third": gaps & (thirds == 1),
    "last third": gaps & (thirds == 2),
    "all": gaps,
}
print(" " * 26, *(f"{part:>13}" for part in parts))
shares = {}
figure, axes = plt.subplots(figsize=(7, 3))
for index, (name, its) in enumerate(right.items()):
    shares[name] = [100 * float(its[part].mean()) for part in parts.values()]
    print(f"{name:26}", *(f"{share:11.1f} %" for share in shares[name]))
    axes.bar(np.arange(len(parts)) + 0.4 * index, shares[name], 0.4, label=name)
axes.set_xticks(np.arange(len(parts)) + 0.2, list(parts))
axes.set(ylabel="% of the tokens guessed rightly", ylim=(0, 100))
axes.legend(loc="lower right")
figure.tight_layout()
figure.savefig("lesson_9_guesses.png")

if not FAST:
    encoder, decoder = shares.values()
    assert min(encoder[-1], decoder[-1]) > 50
    assert encoder[0] > decoder[0] + 5
    assert encoder[0] - decoder[0] > encoder[2] - decoder[2]
print("done: every claim of this lesson was checked")

# %% [markdown]
# Two things are at work. The encoder sees more. But the decoder learns more from the
# same sentences: each asks it for every token, and the encoder for one of seven; and no
# token before the one it guesses is ever hidden from it. Seeing more decides where what
# came before says little; digits of a number neither of them can know.

# %% [markdown]
# ## What was seen
#
# * Encoder and decoder are one block; the causal mask is the difference.
# * The encoder fills a gap from both sides, the decoder goes on with a beginning.
# * The encoder guesses more where the beginning of a sentence is open.
#
# ## Exercise
#
# Let the encoder hide one token of three in place of one of seven. Which of the thirds
# gains, and which loses? Then give the decoder the sentences backwards, and count by
# thirds again.
