# %% [markdown]
# # Lesson 4: your own text
#
# Two text files, one sentence a line, line by line translations of each other: that is
# all it takes. This lesson goes from there to a model that answers over HTTP, with the
# commands that you would type, and with what they say when something is wrong.
#
# What to expect: a config of two dozen lines; a run that is killed, goes on, and ends
# with curves and scores; a file and a server that give the same translations; and
# messages that name what to change. About ten minutes on two CPU cores, with BLEU above
# 80 at the end; `TUTORIAL_FAST=1` makes it less than one, with a model that has learned
# little.
#
# In a clone of the repository: `pip install '.[jax,serve,plot]'`; any other backend
# does as well.

# %%
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

import matplotlib.pyplot as plt

from keras_transformer.data import phrasebook

FAST = bool(os.environ.get("TUTORIAL_FAST"))
FRAMEWORKS = re.compile(r"WARNING: All log|normalizer|[IWE]\d{4} ")  # their greetings


def start(command, **options):
    """A command of this package as a process; shown as one would type it."""
    print(f"$ {command}")
    return subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.cli.main", *shlex.split(command)[1:]],
        stderr=subprocess.PIPE,
        encoding="utf-8",
        **options,
    )


def run(command, code=0, lines=None):
    """Runs it to its end, shows what it says, and returns that: (output, messages)."""
    process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    output, messages = process.communicate(lines)
    told = [line for line in messages.splitlines() if not FRAMEWORKS.match(line)]
    print(*told, output, sep="\n")
    assert process.returncode == code
    return output, messages


# %% [markdown]
# ## The text
#
# Any sentence-aligned text will do; Multi30k, captions of photographs, is a good first
# one, and `tutorials/configs/` has configs for it. Here nothing is downloaded:
# sentences of the embedded phrasebook are written out as the plain files that you would
# have.
#
# Three parts, and no sentence in two of them: `train` to learn from, `validation` to
# watch while it learns, `test` to look at once.

# %%
SIZES = {"train": 32, "validation": 2, "test": 4}
for part, size in SIZES.items():
    pairs = list(zip(*phrasebook.load("en", "de", part), strict=True))
    if FAST:  # of about one length, so that they fill a batch of one shape
        pairs = dict.fromkeys(pairs)
        pairs = sorted(pairs, key=lambda pair: abs(len(pair[1]) - 40))[:size]
    elif part != "train":
        pairs = pairs[:200]
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        text = "".join(f"{line}\n" for line in lines)
        Path(f"{part}.{language}").write_text(text, encoding="utf-8")
    print(f"{part}: {len(pairs)} pairs, such as {pairs[0]}")

# %% [markdown]
# ## The config
#
# Each key but `data` may be left out; its default is then the paper's, for millions of
# sentences and a GPU. For a small text the model should be small, the vocabulary too,
# and the learning rate higher. A short training wants little dropout or none, and
# learns faster with `normalize_first`, normalization before each sublayer. Paths are
# relative to the file; the run goes to `runs/mine`, named after it, in the working
# directory.

# %%
D, LAYERS, V, STEPS, EVERY = (
    (32, 1, 360, 150, 50) if FAST else (128, 2, 3000, 1600, 200)
)
CONFIG = f"""\
model:
  preset: tiny
  hidden_dim: {D}
  intermediate_dim: {2 * D}
  num_encoder_layers: {LAYERS}
  num_decoder_layers: {LAYERS}
  normalize_first: true
  dropout: 0.0
tokenizer: {{vocabulary_size: {V}, split_digits: true}}
data:
  train: [{{source: train.en, target: train.de}}]
  validation: {{source: validation.en, target: validation.de}}
  test: {{source: test.en, target: test.de}}
  batch_tokens: {2048 if FAST else 1536}
training:
  steps: {STEPS}
  warmup_steps: {STEPS // 7}
  learning_rate: 0.005
  schedule: cosine
  validate_every: {EVERY}
  checkpoint_every: {EVERY // 2}
decoding: {{beam_size: 2}}
"""
Path("mine.yaml").write_text(CONFIG)

# %% [markdown]
# ## Training, killed and resumed
#
# Machines are switched off, clusters take their machines back. Here the worst case:
# after the first validation the process is killed, without a chance to save anything.

# %%
training = start("keras-transformer train mine.yaml")
for line in training.stderr:
    if not FRAMEWORKS.match(line):
        print(line, end="")
    if line.startswith(f"step {EVERY}: "):
        training.send_signal(signal.SIGKILL)
training.wait()
print("killed")

# %% [markdown]
# The same command goes on from the last checkpoint that is whole, and ends with the
# weights of a run that was left alone.

# %%
_, messages = run("keras-transformer train mine.yaml")
assert "resumed from step" in messages
assert Path("runs/mine/averaged/config.json").exists()

# %% [markdown]
# In the run folder, `averaged` is the model and `best` the best in validation;
# `checkpoints`, `corpus.json` and `encoded` are for going on; `config.yaml` and
# `tokenizer.model` are what it was made with; `logs` has the curves, and
# `test.hypotheses.txt` the translations of the test text.

# %%
for path in sorted(Path("runs/mine").iterdir()):
    print(path)

# %% [markdown]
# ## Reading the curves
#
# `logs/curve.png` is drawn while it trains, TensorBoard reads `logs/` too, and
# `logs/metrics.jsonl` has each number, one line for each step that was told.

# %%
lines = Path("runs/mine/logs/metrics.jsonl").read_text().splitlines()
log = [json.loads(line) for line in lines]
print(json.dumps(log[-1], indent=1))

figure, panels = plt.subplots(1, 3, figsize=(13, 3.6))
for panel, names in zip(
    panels, (("nll", "val_nll"), ("val_bleu",), ("learning_rate",)), strict=True
):
    for name in names:
        told = [(line["step"], line[name]) for line in log if name in line]
        panel.plot(*zip(*told, strict=True), "o-", markersize=3, label=name)
    panel.set(xlabel="step", ylim=(0, None))
    panel.legend()
figure.tight_layout()
figure.savefig("lesson_4_curves.png")

steps = [line["step"] for line in log]
assert steps == sorted(set(steps))  # killed or not, each step stands there once
assert steps[-1] == STEPS
assert log[-1]["nll"] < log[0]["nll"]
assert FAST or log[-1]["val_nll"] < log[0].get("val_nll", log[0]["nll"])

# %% [markdown]
# What to read from them, left to right:
#
# * `nll` is the loss of a token without label smoothing, in nats, the mean since the
#   last validation or checkpoint; it falls fast, then slowly. `val_nll` follows it.
#   Where it turns and rises while `nll` goes on falling, the model overfits: more text,
#   more `dropout`, a smaller model, or `patience: 5`, which ends there.
# * Both stand still, high: the learning rate is too low, or far too high.
# * `nll` jumps up: the learning rate is too high, or `warmup_steps` too few. If it
#   becomes no number at all, the run stops and says so.
# * `val_bleu` rises late: a sentence counts when most of its words are right. While it
#   still rises at the end, train longer.

# %% [markdown]
# ## Translate, evaluate, compare
#
# `averaged` is the model, the mean of the last checkpoints. `translate` takes lines and
# gives lines.

# %%
MODEL = "runs/mine/averaged"
source = Path("test.en").read_text(encoding="utf-8")
translation, _ = run(f"keras-transformer translate {MODEL}", lines=source)
hypotheses = Path("runs/mine/test.hypotheses.txt").read_text(encoding="utf-8")
assert translation == hypotheses  # the run has translated the test text at its end

# %% [markdown]
# `evaluate` translates and scores; its signature says exactly how, so that the number
# can be compared with others.

# %%
found, _ = run(
    f"keras-transformer evaluate {MODEL} --source test.en --reference test.de "
    "--beam-size 1 --output greedy.de"
)
assert "BLEU" in found

# %% [markdown]
# Is beam search better than greedy search, or is the difference chance? `compare` draws
# the test lines again and again, and its p says how often chance alone would make so
# large a difference: below 0.05 it is worth telling.

# %%
compared, _ = run(
    "keras-transformer compare --reference test.de --confidence 200 greedy.de "
    "runs/mine/test.hypotheses.txt"
)
assert "p = " in compared
bleu = float(re.search(r"hypotheses\.txt: BLEU = ([\d.]+)", compared)[1])
assert FAST or bleu > 80

# %% [markdown]
# ## Serve
#
# The same model behind HTTP, with a page at `/`. Port 0 takes a free one; the server
# says which when it is ready. SIGTERM lets it finish what it has taken on.

# %%
server = start(f"keras-transformer serve {MODEL} --port 0 --warm-up 0")
for message in server.stderr:
    if not FRAMEWORKS.match(message):
        print(message, end="")
    if ready := re.search(r"ready after .* (http://\S+)", message):
        break

line = source.splitlines()[0]
body = json.dumps({"text": line}).encode()
with urllib.request.urlopen(f"{ready[1]}translate", data=body) as response:
    answer = json.load(response)
server.send_signal(signal.SIGTERM)
server.communicate()
print(line)
print(answer)
assert answer["translations"] == translation.splitlines()[:1]
assert server.returncode == 128 + signal.SIGTERM

# %% [markdown]
# ## When it goes wrong
#
# A command that cannot do its work ends with code 2 and one line, which says what is
# wrong, where, and how to mend it. The usual ones:
#
# *The files do not match.* One side lost a line, often an empty one; all pairs after it
# would be wrong.

# %%
lines = Path("train.de").read_text(encoding="utf-8").splitlines()
Path("shorter.de").write_text("\n".join(lines[:-1]) + "\n", encoding="utf-8")
Path("wrong.yaml").write_text(CONFIG.replace("train.de", "shorter.de"))
_, message = run("keras-transformer train wrong.yaml", code=2)
assert "shorter.de" in message

# %% [markdown]
# *A key that there is not.* Nothing is ignored in silence; the nearest right key is
# named.

# %%
_, message = run("keras-transformer train mine.yaml --set training.step=100", code=2)
assert "steps" in message

# %% [markdown]
# *A config that has changed.* A run folder belongs to one config and one text, to the
# last line of it. Going on with others would give a model that neither describes. Only
# more `training.steps`, and what no step depends on (how often it validates and keeps
# checkpoints, `patience`, `average_last`, `evaluation`), may change on the way.

# %%
_, message = run("keras-transformer train mine.yaml --set training.seed=2", code=2)
assert "training.seed: 1 -> 2" in message

# %% [markdown]
# *A path that leads nowhere.*

# %%
_, message = run("keras-transformer translate runs/mine/average", code=2, lines="")
assert "runs/mine/average" in message

# %% [markdown]
# And what is not an error, but slow or poor:
#
# * The first step takes seconds, and so does the first batch of each new shape: the
#   framework compiles. Later starts of JAX read what was compiled before.
# * Pairs that are `dropped`, as the first lines of a run say: longer than
#   `data.max_length`, or empty. A few are normal; many mean that lines are not
#   sentences.
# * Translations that repeat themselves or break off: too few steps. All of them the
#   same: the source is not used yet, so train longer or with a lower learning rate.

# %% [markdown]
# ## What was seen
#
# * Two text files and a config of two dozen lines make a translator.
# * A run that is killed goes on, and ends as if it had not been.
# * File, server and Python give the same translations.
# * A message says what is wrong, where, and how to mend it.
#
# ## Exercise
#
# Give the run `patience: 2`, `keep_best: 1` and `average_best: 1`, and read in the log
# where it ends. Is the best checkpoint better on the test text than the mean of the
# last ones? `keras-transformer compare` says whether the difference is chance.
