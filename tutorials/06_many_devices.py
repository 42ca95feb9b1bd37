# %% [markdown]
# # Lesson 6: many devices
#
# A batch is split over several devices, each computes its share, and the gradients are
# added up: data parallelism. TensorFlow calls it `MirroredStrategy`, JAX a mesh of
# devices, PyTorch starts a process for each device with `torchrun`. Underneath is plain
# `model.fit` each time.
#
# What to expect: the same weights as on one device, to about 1e-6, whichever framework
# and however many devices. No GPU is needed: a CPU is divided into logical devices. On
# a machine with GPUs the same program uses these, unchanged. About two minutes on two
# CPU cores; `TUTORIAL_FAST=1` makes it one, with fewer steps and set-ups.
#
# All three frameworks must be installed: `pip install '.[all]'`, in a
# clone of the repository.

# %%
import os
import subprocess
import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

FAST = bool(os.environ.get("TUTORIAL_FAST"))
STEPS = 4 if FAST else 20

# %% [markdown]
# ## One program for all
#
# Three expressions in it are there for many devices; the rest is that of one.
#
# * `open_distribution`, before anything else of the framework runs. Inside it is
#   `tf.distribute.MirroredStrategy`, `keras.distribution.DataParallel` or
#   `torch.distributed`, and model and `fit` are made within its scope.
# * `rows_multiple_of`: the number of rows of each batch must be a multiple of the
#   number of replicas. Rows of padding, which weigh nothing, make up for what is
#   missing, so that all see the same batches.
# * `part`: each process gives `fit` its own rows. It is `(0, 1)`, all of them, where
#   one process has all devices.
#
# The weights of the tokens sum to 1 over the *whole* batch, and the loss is a sum. A
# mean over each share, and a mean of these, would be another number: the shares hold
# different numbers of tokens.

# %%
PROGRAM = """
import sys
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer.data import phrasebook
from keras_transformer.training.distribution import open_distribution

kind, devices, steps, output = sys.argv[1:]
devices = devices if devices == "all" else int(devices)
with open_distribution(kind, devices) as distribution:
    keras.utils.set_random_seed(1)
    text = [side[:600] for side in phrasebook.load("en", "de", "train")]
    tokenizer = kt.data.Tokenizer.train(text[0] + text[1], 400, split_digits=True)
    pairs, _ = kt.data.encode_pairs(
        kt.data.ParallelText(*text), tokenizer, tokenizer, max_length=48
    )
    batches = kt.data.TokenBatches(
        pairs, 2048, max_buckets=1, rows_multiple_of=distribution.num_replicas
    )
    config = kt.TransformerConfig(
        vocabulary_size=400,
        hidden_dim=32,
        intermediate_dim=64,
        num_heads=4,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.1,
    )
    model = kt.Transformer(config)
    start = Path("start.weights.h5")  # of the first run, for all others
    if start.exists():
        model.load_weights(start)
    else:
        model.save_weights(start)
    model.compile(
        optimizer=keras.optimizers.SGD(0.1, momentum=0.9),
        loss=kt.training.LabelSmoothedCrossEntropy(0.1),
    )
    history = model.fit(
        batches.from_step(0, part=distribution.part),
        steps_per_epoch=1,  # so that history has the loss of each step
        epochs=int(steps),
        shuffle=False,
        verbose=0,
    )
    if distribution.is_chief:
        weights = {w.path: keras.ops.convert_to_numpy(w) for w in model.weights}
        np.savez(output, loss=history.history["loss"], **weights)
"""
Path("devices.py").write_text(PROGRAM)

# %% [markdown]
# ## Set-ups
#
# One device is the measure for all others. The two numbers after each kind are how many
# devices there are, and how many processes: PyTorch has one for each device, started by
# `torchrun`. `model_parallel` is JAX's other way: the devices share the *weights*, by
# heads, inner features and vocabulary, for models that are too large for one.

# %%
OWN = os.environ.get("KERAS_BACKEND", "tensorflow")
SET_UPS = [
    (OWN, "none", 1, 1),
    ("jax", "data_parallel", 2, 1),
    ("torch", "torchrun", 2, 2),
]
if not FAST:
    SET_UPS[1:1] = [("tensorflow", "mirrored", 2, 1)]
    SET_UPS += [
        ("tensorflow", "mirrored", 4, 1),
        ("jax", "data_parallel", 4, 1),
        ("jax", "model_parallel", 2, 1),
    ]


def train(backend, kind, devices, processes):
    """What a training under a set-up ends with: {name: array}."""
    name = f"{backend}, {kind}, {devices}"
    launcher = []
    if processes > 1:
        launcher = ["-m", "torch.distributed.run", "--standalone"]
        launcher += [f"--nproc-per-node={processes}"]
    count = "all" if kind == "none" else str(devices)
    command = ["devices.py", kind, count, str(STEPS), f"{name}.npz"]
    environment = {"OMP_NUM_THREADS": "1", "TF_CPP_MIN_LOG_LEVEL": "3", **os.environ}
    done = subprocess.run(
        [sys.executable, *launcher, *command],
        env={**environment, "KERAS_BACKEND": backend},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    with np.load(f"{name}.npz") as arrays:
        return name, dict(arrays)


ends = dict(train(*set_up) for set_up in SET_UPS)

# %% [markdown]
# ## The same weights

# %%
losses = {name: end.pop("loss") for name, end in ends.items()}
alone, expected = (next(iter(each.values())) for each in (ends, losses))
differences = {
    name: max(np.abs(end[path] - alone[path]).max() for path in alone)
    for name, end in ends.items()
}
for name, difference in differences.items():
    print(f"{name:28} loss {losses[name][-1]:.6f}   weights differ by {difference:.1e}")
    assert difference < 1e-5
    np.testing.assert_allclose(losses[name], expected, rtol=1e-5)
assert expected[-1] < expected[0]

figure, (left, right) = plt.subplots(1, 2, figsize=(11, 3.8))
for index, (name, loss) in enumerate(losses.items()):
    width = 2 * (len(losses) - index)  # each is seen around those that lie on it
    left.plot(range(1, STEPS + 1), loss, linewidth=width, label=name)
left.set(xlabel="step", ylabel="loss", title="curves that lie on one another")
left.legend(fontsize=8)
right.barh(list(differences), [max(value, 1e-9) for value in differences.values()])
right.invert_yaxis()
right.set(xscale="log", xlim=(1e-9, 1e-2), xlabel="largest difference of a weight")
right.axvline(1e-5, color="gray", linestyle=":")
figure.tight_layout()
figure.savefig("lesson_6_devices.png")

# %% [markdown]
# What is left is rounding: four sums of a quarter each are rounded otherwise than one
# sum of all. Dropout is no exception: its mask is a function of the seed and of the
# place in the whole batch, not of the device that draws it.
#
# ## On GPUs, and from the command line
#
# `devices="all"` takes all GPUs of the machine; nothing else in the program changes.
# `keras-transformer train` has the same as keys of the config, with `KERAS_BACKEND` set
# to `tensorflow`, `jax` and `torch`, in this order:
#
# ```
# keras-transformer train CONFIG.yaml --set training.distribution=mirrored
# keras-transformer train CONFIG.yaml --set training.distribution=data_parallel
# torchrun --nproc-per-node 8 -m keras_transformer.cli.main train CONFIG.yaml \
#     --set training.distribution=torchrun
# ```
#
# With `--set training.devices=2` the first two can be tried on a machine without GPUs.
# Several machines need a command each: `docs/several_devices.md` has them. More devices
# are no faster where a step is as small as here: they must meet after each one.

# %% [markdown]
# ## What was seen
#
# * A batch that is split over devices gives the weights of one device, to rounding.
# * That holds on the three backends, for any number of devices, dropout included.
# * The program is the same; one line says which devices.
#
# ## Exercise
#
# Measure the time of a step with one, two and four devices, for `hidden_dim` 64, 256
# and 1024. From which size of model on does the splitting pay on your machine? Then let
# `model_parallel` print the shape of one weight on each device: which weights are
# split?
