# %% [markdown]
# # Lesson 10: a pretrained model
#
# Most models need not be trained from nothing: others have trained them. This lesson
# takes a folder of MarianMT, the family of the thousand OPUS-MT models, and goes from
# there to a model that knows one's own text, exported and served.
#
# What to expect: the folder is imported and translates well what it has learned, and
# poorly what it has not: sums of money. Learning from such sentences alone mends that,
# and the rest is forgotten; with old text beside the new one it is not. The tuned model
# goes to CTranslate2, which gives the same translations, and answers over HTTP. About
# ten minutes on two CPU cores; `TUTORIAL_FAST=1` makes it a matter of seconds, with
# little learned.
#
# In a clone of the repository: `pip install '.[all]'`. Nothing is downloaded: a small
# model lies in `tutorials/pretrained/en-de`, made by `make.py` beside it. The last
# section says what changes for a large one.

# %%
import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import keras
import matplotlib.pyplot as plt
import numpy as np

import keras_transformer as kt
from keras_transformer.data import phrasebook

FAST = bool(os.environ.get("TUTORIAL_FAST"))
STEPS, TESTED = (2, 3) if FAST else (400, 139)
keras.utils.set_random_seed(1)
print("backend:", keras.backend.backend())


def in_clone(name):
    """A path of the clone that this lesson, its notebook or the package lies in."""
    for start in (globals().get("__file__", "."), kt.__file__):
        for folder in Path(start).resolve().parents:
            if (folder / name).exists():
                return folder / name
    raise FileNotFoundError(f"run this lesson in a clone that has {name}")


# %% [markdown]
# ## Import
#
# The folder has the files that such a model has on the Hugging Face hub. Weights in
# float16 take half the space; they become float32.

# %%
SOURCE = in_clone("tutorials/pretrained/en-de")
for path in sorted(Path(SOURCE).glob("*")):
    print(f"{path.stat().st_size:9,} bytes  {path.name}")

report = kt.importing.convert(SOURCE, "models/en-de")
print(report)
assert report.family == "MarianMT"

# %% [markdown]
# What it writes is a model folder like any other. The command that does the same is
# `keras-transformer import FOLDER --output models/en-de`.

# %%
pretrained = kt.Translator.load("models/en-de")
print(pretrained.model.config.model_dump(exclude_defaults=True))
lines = [
    "The old teacher is reading a book.",
    "The train leaves at 8:34 AM.",
    "The train ticket costs €47.05.",
]
for line, translation in zip(lines, pretrained.translate(lines), strict=True):
    print(line, "->", translation)

# %% [markdown]
# The last one it cannot know: it was trained on the sentences of the phrasebook without
# a sum of money.

# %% [markdown]
# ## How good is it?
#
# One test for what it has learned, one for what it has not: sentences of the
# phrasebook's test text without money, and with it. BLEU of greedy translations.

# %%
MONEY = re.compile(r"[€$£]|euros|dollars|francs")


def pairs_of(split, money):
    """Sentence pairs with sums of money, or without."""
    pairs = zip(*phrasebook.load("en", "de", split), strict=True)
    return [pair for pair in pairs if bool(MONEY.search(pair[0])) == money]


tests = {
    "other sentences": pairs_of("test", money=False)[:TESTED],
    "prices": pairs_of("test", money=True)[:TESTED],
}
for name, pairs in tests.items():
    print(f"{len(pairs)} {name}, such as {pairs[0]}")


def bleu_of(translator):
    """BLEU of both tests."""
    scores = {}
    for name, pairs in tests.items():
        sources, references = zip(*pairs, strict=True)
        translations = translator.translate(list(sources), beam_size=1)
        (bleu,) = kt.evaluation.evaluate(translations, references, metrics=("bleu",))
        scores[name] = bleu.score
    print(", ".join(f"{name}: {score:.1f} BLEU" for name, score in scores.items()))
    return scores


results = {"imported": bleu_of(pretrained)}

# %% [markdown]
# ## Learning prices
#
# The tokenizers of the folder encode the text, for its ids are those that the model
# knows: here padding, start and end are what the folder says. The learning rate is
# below the one of a training from nothing.

# %%
LEARNING_RATE = 1e-3


def tuned_on(pairs):
    """The imported model after some steps on these pairs."""
    translator = kt.Translator.load("models/en-de")
    text = kt.data.ParallelText(*map(list, zip(*pairs, strict=True)))
    tokenizers = translator.tokenizer, translator.target_tokenizer
    encoded, report = kt.data.encode_pairs(text, *tokenizers, max_length=128)
    print(report)
    rate = keras.optimizers.schedules.CosineDecay(
        0.0, STEPS, warmup_target=LEARNING_RATE, warmup_steps=max(STEPS // 10, 1)
    )
    translator.model.compile(
        kt.training.adam(rate), kt.training.LabelSmoothedCrossEntropy(0.1)
    )
    buckets = 1 if FAST else 4  # shapes, each of which is compiled
    batches = kt.data.TokenBatches(encoded, batch_tokens=1024, max_buckets=buckets)
    translator.model.fit(
        batches.from_step(0), steps_per_epoch=STEPS, shuffle=False, verbose=0
    )
    return translator


prices = pairs_of("train", money=True)[: 16 if FAST else None]
alone = tuned_on(prices)
results["tuned on prices"] = bleu_of(alone)

# %% [markdown]
# It has learned prices and forgotten much of the rest, which nothing reminded it of.
# The sentences of above:

# %%
for line, translation in zip(lines, alone.translate(lines), strict=True):
    print(line, "->", translation)

# %% [markdown]
# ## With old text beside it
#
# As many sentences of the old kind, drawn at random, among the new ones. In a config of
# `keras-transformer train` these are two entries of `data.train`, see
# `docs/fine_tune.md`; who has no text of the old kind takes any sentences of it, with
# the model's own translations.

# %%
old = pairs_of("train", money=False)
drawn = np.random.default_rng(1).choice(len(old), len(prices), replace=False)
tuned = tuned_on(prices + [old[i] for i in drawn])
results["tuned on both"] = bleu_of(tuned)
for line, translation in zip(lines, tuned.translate(lines), strict=True):
    print(line, "->", translation)
tuned.save("models/en-de-prices")

figure, axes = plt.subplots(figsize=(7, 3))
for index, name in enumerate(tests):
    places = np.arange(len(results)) + 0.4 * index
    axes.bar(places, [scores[name] for scores in results.values()], 0.4, label=name)
axes.set_xticks(np.arange(len(results)) + 0.2, list(results))
axes.set(ylabel="BLEU", ylim=(0, 100))
axes.legend(loc="lower right")
figure.tight_layout()
figure.savefig("lesson_10_bleu.png")

if not FAST:
    imported, forgetful, good = results.values()
    assert imported["other sentences"] > 80 > 50 > imported["prices"]
    assert forgetful["prices"] > 70
    assert forgetful["other sentences"] < imported["other sentences"] - 15
    assert good["prices"] > 70
    assert good["other sentences"] > imported["other sentences"] - 10

# %% [markdown]
# ## Export
#
# To CTranslate2, which searches in C++ and needs neither Keras nor this package. Greedy
# translations are compared, for its beam search has rules of its own. The command is
# `keras-transformer export models/en-de-prices --format ctranslate2 --output
# exports/en-de`.

# %%
kt.export.ctranslate2.export(tuned, "exports/en-de")
sources = [source for pairs in tests.values() for source, _ in pairs]
expected = tuned.translate(sources, beam_size=1)
program = ["exports/en-de/translate.py", "--beam-size", "1"]
print("$ python", *program, "< test.en")
done = subprocess.run(
    [sys.executable, *program],
    input="".join(f"{source}\n" for source in sources),
    stdout=subprocess.PIPE,
    encoding="utf-8",
    check=True,
)
found = done.stdout.splitlines()
same = sum(line == right for line, right in zip(found, expected, strict=True))
print(f"{same} of {len(expected)} translations are the same")
# Where two words are equally likely but for rounding, either is right.
assert same >= 0.98 * len(expected)

# %% [markdown]
# ## Serve
#
# `serve` takes a model folder or, as here, the export, which starts in no time. Port 0
# is a free one.

# %%
command = ["serve", "exports/en-de", "--port", "0", "--beam-size", "1"]
print("$ keras-transformer", *command)
server = subprocess.Popen(
    [sys.executable, "-m", "keras_transformer.cli.main", *command],
    stderr=subprocess.PIPE,
    encoding="utf-8",
)
for message in server.stderr:
    print(message, end="")
    if ready := re.search(r"ready after .* (http://\S+)", message):
        break
body = json.dumps({"text": sources[-1]}).encode()
with urllib.request.urlopen(f"{ready[1]}translate", data=body) as response:
    answer = json.load(response)
server.send_signal(signal.SIGTERM)
server.communicate()
print(sources[-1])
print(answer)
assert answer["translations"] == found[-1:]

# %% [markdown]
# ## A real one
#
# A model of OPUS-MT has fifty times the pieces in its vocabulary and a hundred times
# the weights. Two lines of this lesson change, and the checks of BLEU, which are about
# this small model, go:
#
# ```python
# SOURCE = "Helsinki-NLP/opus-mt-en-de"  # needs `huggingface_hub`, see docs/import.md
# LEARNING_RATE = 1e-4  # large steps undo what it has learned
# ```
#
# The text is then your own: `kt.data.read_parallel(["own.en"], ["own.de"])` reads two
# files. `docs/import.md` lists the other families and what is refused,
# `docs/fine_tune.md` more ways of tuning, LoRA among them.

# %%
print("done: every claim of this lesson was checked")

# %% [markdown]
# ## What was seen
#
# * A folder of another toolkit becomes a model folder, and translates as before.
# * Tuning on new sentences alone mends what is new, and forgets the rest.
# * Old text beside the new one keeps both.
# * The tuned model is exported and served as any other.
#
# ## Exercise
#
# Tune with LoRA: `training.lora: {rank: 8}` or `model.enable_lora(8)`, and a learning
# rate ten times as high. How many weights learn, and how much is forgotten without old
# text beside the new one?
