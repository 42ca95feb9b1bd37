"""A run on a small corpus, and what it leaves."""

import json
import os
import signal

import numpy as np

from keras_transformer.models.weights import read_arrays
from keras_transformer.training.callbacks import Progress

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.1}
tokenizer: {vocabulary_size: 270, split_digits: true}
data:
  train: [{source: train.en, target: train.de}]
  validation: {source: val.en, target: val.de}
  test: {source: val.en, target: val.de}
  batch_tokens: 64
  max_length: 200
training: {steps: 6, warmup_steps: 3, learning_rate: 0.01, validate_every: 4,
           checkpoint_every: 2}
decoding: {beam_size: 2, length_penalty: 0.6, max_length: 6}
"""


def terminating_at(step, number=signal.SIGTERM):
    """A `Progress` in whose step a signal comes."""

    class Terminating(Progress):
        def on_train_batch_end(self, batch, logs=None):
            super().on_train_batch_end(batch, logs)
            if self.step == step:
                os.kill(os.getpid(), number)

    return Terminating


def flip(path, offset):
    """Flips a bit of a file."""
    content = bytearray(path.read_bytes())
    content[offset % len(content)] ^= 4
    path.write_bytes(content)


def weights_of(folder):
    return read_arrays(folder / "model.weights.h5")


def assert_equal(one, other):
    assert one.keys() == other.keys()
    for name, array in one.items():
        np.testing.assert_array_equal(array, other[name], err_msg=name)


def assert_mean(actual, parts):
    for name, array in actual.items():
        mean = np.mean([part[name] for part in parts], axis=0)
        np.testing.assert_allclose(array, mean, rtol=1e-5, atol=1e-7, err_msg=name)


def metrics(folder):
    lines = (folder / "logs" / "metrics.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines]


def assert_equal_runs(one, other):
    """Weights, optimizer and metrics of two runs are the same to the last bit."""
    both = [folder / "checkpoints" for folder in (one, other)]
    steps = [sorted(path.name for path in folder.iterdir()) for folder in both]
    assert steps[0] == steps[1]
    for step in steps[0]:
        for name in ("model.weights.h5", "state.h5"):
            assert_equal(*(read_arrays(folder / step / name) for folder in both))
    assert_equal(weights_of(one / "averaged"), weights_of(other / "averaged"))
    timed = ("seconds", "tokens_per_second")
    lines = [
        [{k: v for k, v in line.items() if k not in timed} for line in metrics(folder)]
        for folder in (one, other)
    ]
    assert lines[0] == lines[1]
