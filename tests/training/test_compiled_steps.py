"""Runs whose steps XLA compiles or PyTorch traces, `training.jit_compile`."""

from pathlib import Path

import digit_text
import keras
import numpy as np
import pytest

from keras_transformer.models.weights import read_arrays
from keras_transformer.training import assembly
from keras_transformer.training import load_config
from keras_transformer.training import train

CONFIG = """
model: {preset: tiny, hidden_dim: 16, intermediate_dim: 24, num_heads: 2,
        num_encoder_layers: 1, num_decoder_layers: 1, dropout: 0.0}
tokenizer: {vocabulary_size: 270, split_digits: true}
data: {train: [{source: train.en, target: train.de}], batch_tokens: 64}
training: {steps: 6, warmup_steps: 3, learning_rate: 0.01, checkpoint_every: 6}
output: run
"""


@pytest.fixture
def config_file(tmp_path, monkeypatch):
    digit_text.write_files(tmp_path, "train", 60)
    (tmp_path / "small.yaml").write_text(CONFIG)
    monkeypatch.chdir(tmp_path)
    return tmp_path / "small.yaml"


@pytest.mark.one_backend("tensorflow", "torch")
def test_they_learn_the_same(config_file, monkeypatch):
    options = ["training.micro_batches=2"]
    train(load_config(config_file, [*options, "output=plain"]))

    made = []
    compiled_model = assembly.compiled_model
    monkeypatch.setattr(
        assembly,
        "compiled_model",
        lambda *arguments: made.append(compiled_model(*arguments)) or made[-1],
    )
    options.append("training.jit_compile=true")
    train(load_config(config_file, [*options, "output=compiled"]))
    by_pytorch = keras.backend.backend() == "torch"
    assert (made[0].jit_compile, made[0].traces_steps) == (not by_pytorch, by_pytorch)
    plain, compiled = (
        read_arrays(Path(name, "averaged", "model.weights.h5"))
        for name in ("plain", "compiled")
    )
    for name, array in plain.items():
        np.testing.assert_allclose(compiled[name], array, rtol=0, atol=2e-5)
