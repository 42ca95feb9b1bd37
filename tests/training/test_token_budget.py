"""`batch_tokens: auto`, on memory that is known."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.training.token_budget import find_batch_tokens

MODEL_BYTES, TOKEN_BYTES = 10**9, 10**5


class Steps:
    """A model that only counts the target tokens of its steps."""

    def train_on_batch(self, inputs, labels, weights):
        self.tokens = labels.size


@pytest.fixture
def find(monkeypatch):
    """The budget of a machine with so many bytes."""
    rows = kt.data.TokenRows.from_lists([[5] * (i % 30) for i in range(4000)])
    pairs, model = kt.data.EncodedPairs(rows, rows), Steps()

    def peak(step):
        step()
        return MODEL_BYTES + TOKEN_BYTES * model.tokens

    def find(limit):
        monkeypatch.setattr(backends, "peak_memory", peak)
        monkeypatch.setattr(backends, "memory_limit", lambda: limit)
        return find_batch_tokens(model, pairs)

    return find


def test_it_is_what_four_fifths_of_the_memory_hold(find):
    found = find((MODEL_BYTES + TOKEN_BYTES * 10_000) / 0.8)
    assert 10_000 - 64 < found <= 10_000


def test_it_is_at_most_the_batch_of_the_paper(find):
    assert 25_000 - 64 < find(10**12) <= 25_000


def test_a_model_that_does_not_fit_is_refused(find):
    with pytest.raises(InputError, match="does not hold a training step of"):
        find(MODEL_BYTES)


def test_the_peak_is_that_of_the_function_alone():
    if keras.backend.backend() == "torch" and _has_gpu():
        pytest.skip("counts the memory of the GPU")
    before = backends.peak_memory(lambda: None)
    held = backends.peak_memory(lambda: np.ones(2**25).sum())  # 256 MiB
    after = backends.peak_memory(lambda: None)
    assert held - before > 200 * 2**20
    assert held - after > 200 * 2**20
    assert 0 < held < backends.memory_limit()


def _has_gpu():
    import torch

    return torch.cuda.is_available()
