# %% [markdown]
# # Lesson 5: swap the backend
#
# Nothing that this package writes knows which framework wrote it: weights, optimizer
# and the place in the data are arrays with names. So a training can begin on one
# framework and end on another, and the model translates on the third.
#
# What to expect: a training is stopped half-way and goes on elsewhere, with the loss
# where it was; one model folder gives the same logits on all three, to about 1e-5, and
# the same translations. About ten minutes on two CPU cores; `TUTORIAL_FAST=1` makes it
# less than one, with a model that has learned little.
#
# All three frameworks must be installed; in a clone of the repository:
# `pip install '.[all]'`. The first is the one that `KERAS_BACKEND` names. Keras takes
# one backend a process, so each step here is a process of its own, as it would be on
# your machines.

# %%
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from keras_transformer.data import phrasebook

FAST = bool(os.environ.get("TUTORIAL_FAST"))
first = os.environ.get("KERAS_BACKEND", "tensorflow")
second, third = (name for name in ("torch", "tensorflow", "jax") if name != first)
print(f"begin on {first}, go on with {second}, translate with {third}")

# %% [markdown]
# ## A small training
#
# The embedded phrasebook as plain files, and a config. It names no framework: that is
# chosen where a command is started, by the variable `KERAS_BACKEND`.

# %%
COUNTS = {"train": 32, "validation": 2, "test": 4}
for split, count in COUNTS.items():
    pairs = list(zip(*phrasebook.load("en", "de", split), strict=True))
    if FAST:  # of about one length, so that they fill a batch of one shape
        pairs = dict.fromkeys(pairs)
        pairs = sorted(pairs, key=lambda pair: abs(len(pair[1]) - 40))[:count]
    elif split != "train":
        pairs = pairs[:200]
    for language, lines in zip(("en", "de"), zip(*pairs, strict=True), strict=True):
        Path(f"{split}.{language}").write_text(
            "\n".join(lines) + "\n", encoding="utf-8"
        )

D, LAYERS, V, STEPS = (32, 1, 360, 40) if FAST else (128, 2, 3000, 960)
EVERY = STEPS // (2 if FAST else 6)  # steps from one validation to the next
CONFIG = f"""
model: {{preset: tiny, hidden_dim: {D}, intermediate_dim: {2 * D}, num_heads: 4,
        num_encoder_layers: {LAYERS}, num_decoder_layers: {LAYERS},
        normalize_first: true, dropout: 0.1}}
tokenizer: {{vocabulary_size: {V}, split_digits: true}}
data:
  train: [{{source: train.en, target: train.de}}]
  validation: {{source: validation.en, target: validation.de}}
  batch_tokens: 2048
training: {{steps: {STEPS}, warmup_steps: {STEPS // 7}, learning_rate: 0.005,
           schedule: cosine, validate_every: {EVERY}, checkpoint_every: {EVERY}}}
decoding: {{beam_size: 1}}
"""
Path("relay.yaml").write_text(CONFIG)
print(CONFIG)

# %% [markdown]
# ## Begin, stop, go on elsewhere
#
# The run is stopped as a cluster would do it: by SIGTERM, half-way. It finishes its
# step, writes a checkpoint and says what to do. The same command, with another
# `KERAS_BACKEND`, goes on from there: dropout and the order of the batches too are the
# same on all three.

# %%
FRAMEWORKS = re.compile(r"WARNING: All log|normalizer|[IWE]\d{4} ")  # their greetings


def train(backend, stop_at=None, output="runs/relay"):
    """The lines of a training, and its exit code; stopped when it has told a step."""
    command = ["train", "relay.yaml", "--set", f"output={output}"]
    print(f"$ KERAS_BACKEND={backend} keras-transformer", *command)
    process = subprocess.Popen(
        [sys.executable, "-m", "keras_transformer.cli.main", *command],
        env={**os.environ, "KERAS_BACKEND": backend},
        stderr=subprocess.PIPE,
        encoding="utf-8",
    )
    for line in process.stderr:
        if not FRAMEWORKS.match(line):
            print(line, end="")
        if line.startswith(f"step {stop_at}:"):
            process.send_signal(signal.SIGTERM)
    return process.wait()


assert train(first, stop_at=STEPS // 2) == 128 + signal.SIGTERM

# %%
assert train(second) == 0

# %% [markdown]
# What was logged is one curve. In the full lesson a second run, left alone on the first
# framework, lies beside it. Sums are rounded in another order on another framework,
# and training enlarges such differences, so that the two part after a while, as two
# runs on different machines do: by less than a picture shows.


# %%
def log_of(run):
    lines = Path(run, "logs", "metrics.jsonl").read_text().splitlines()
    return {line["step"]: line for line in map(json.loads, lines)}


relay = log_of("runs/relay")
runs = {f"{first}, then {second}": relay}
if not FAST:
    assert train(first, output="runs/alone") == 0
    runs[f"{first} alone"] = log_of("runs/alone")

figure, axes = plt.subplots(figsize=(8, 4))
for (name, log), style in zip(runs.items(), ("o-", "x--"), strict=False):
    told = {step: line["val_nll"] for step, line in log.items() if "val_nll" in line}
    axes.plot(list(told), list(told.values()), style, label=name)
axes.axvline(STEPS // 2, color="gray", linestyle=":")
axes.set(xlabel="step", ylabel="validation: loss of a token", ylim=(0, None))
axes.legend()
figure.tight_layout()
figure.savefig("lesson_5_relay.png")

losses = [line["val_nll"] for line in relay.values() if "val_nll" in line]
assert max(relay) == STEPS
assert losses[-1] < losses[len(losses) // 2 - 1] <= losses[0]
if not FAST:
    found, expected = (log[STEPS]["val_nll"] for log in runs.values())
    print(f"last loss: {found:.4f} and {expected:.4f}")
    assert abs(found - expected) < 0.1 * expected

# %% [markdown]
# ## One model, three frameworks
#
# The model folder that the relay left, read by each framework: the logits of the test
# sentences, given their translations, and its own translations.

# %%
PROGRAM = """
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt

translator = kt.Translator.load("runs/relay/averaged")
paths = Path("test.en"), Path("test.de")
sides = [path.read_text(encoding="utf-8").splitlines() for path in paths]
tokenizer = translator.tokenizer
pairs, _ = kt.data.encode_pairs(kt.data.ParallelText(*sides), tokenizer, tokenizer, 128)
inputs, _, weights = kt.data.TokenBatches(pairs, shuffle=False)[0]
logits = keras.ops.convert_to_numpy(translator.model(inputs))
np.savez(
    f"{keras.backend.backend()}.npz",
    logits=logits[weights > 0],  # of each target token, over the vocabulary
    translations=translator.translate(sides[0]),
)
"""
answers = {}
for backend in (first, second, third):
    environment = {**os.environ, "KERAS_BACKEND": backend, "TF_CPP_MIN_LOG_LEVEL": "3"}
    subprocess.run([sys.executable, "-c", PROGRAM], env=environment, check=True)
    with np.load(f"{backend}.npz") as arrays:
        answers[backend] = dict(arrays)

for backend, answer in answers.items():
    difference = np.abs(answer["logits"] - answers[first]["logits"]).max()
    same = np.mean(answer["translations"] == answers[first]["translations"])
    print(f"{backend:11} logits differ by {difference:.1e}, same texts: {same:.0%}")
    assert difference < 1e-4
    assert same == 1.0
sources = Path("test.en").read_text(encoding="utf-8").splitlines()
for source, translation in zip(
    sources[:3], answers[third]["translations"], strict=False
):
    print(f"\n{source}\n  {translation}")

# %% [markdown]
# ## What does not move
#
# A compiled program. Each framework compiles its own on the first step, which is the
# pause at the beginning of each process above. And Keras itself: a process has one
# backend, and a model in memory stays where it was built. Between processes all that
# moves is files.

# %% [markdown]
# ## What was seen
#
# * Weights, optimizer and the place in the data are files that each backend reads.
# * A training begins on one backend and ends on another, with the loss where it was.
# * One model gives the same logits on all three, to about 1e-5, and the same texts.
#
# ## Exercise
#
# Change the order of the three backends, with `KERAS_BACKEND`, and compare the losses.
# Then set `training.precision` to `mixed_bfloat16` for the second half: how far do the
# logits differ now, and how many texts?
