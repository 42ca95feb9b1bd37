"""Program that trains sixty post-norm blocks at D 128, with DeepNorm and without.

    KERAS_BACKEND=torch python benchmarks/deep_norm.py

Each position is to give another token by a fixed rule, so that guessing costs log 16 =
2.773. Same data, seed and schedule for both.
"""

import argparse

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer.models.blocks import blocks

VOCABULARY_SIZE, HIDDEN_DIM, LENGTH, BATCH = 16, 128, 6, 16
LEARNING_RATE, WARMUP = 3e-4, 30


class Stack(keras.Model):
    """Embeddings, positions and the blocks of an encoder; ids (B, T) to logits."""

    def __init__(self, num_layers, deep_norm):
        super().__init__()
        config = kt.TransformerConfig(
            vocabulary_size=VOCABULARY_SIZE,
            hidden_dim=HIDDEN_DIM,
            intermediate_dim=HIDDEN_DIM,
            num_heads=4,
            num_encoder_layers=num_layers,
            num_decoder_layers=num_layers,
            deep_norm=deep_norm,
            dropout=0.0,
        )
        policy = keras.dtype_policies.get("float32")
        self.embedding = kt.layers.TokenEmbedding(VOCABULARY_SIZE, HIDDEN_DIM)
        self.position = kt.layers.SinusoidalPositionalEncoding()
        self.blocks = blocks(config, "encoder", policy, None)

    def call(self, tokens):
        hidden = self.position(self.embedding(tokens))
        for block in self.blocks:
            hidden = block(hidden)
        return self.embedding(hidden, reverse=True)


def train(num_layers, deep_norm, steps):
    """Prints the mean loss of every ten steps."""
    keras.utils.set_random_seed(1)
    model = Stack(num_layers, deep_norm)
    schedule = keras.optimizers.schedules.PolynomialDecay(
        0.02 * LEARNING_RATE, WARMUP, LEARNING_RATE
    )
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(kt.training.adam(schedule), loss)
    generator, losses = np.random.default_rng(1), []
    for step in range(1, steps + 1):
        tokens = generator.integers(0, VOCABULARY_SIZE, (BATCH, LENGTH))
        labels = (5 * tokens + 3) % VOCABULARY_SIZE
        losses.append(float(model.train_on_batch(tokens, labels)))
        if step % 10 == 0:
            name = "DeepNorm" if deep_norm else "post-norm"
            print(f"{name}: step {step}, loss {np.mean(losses[-10:]):.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--layers", type=int, default=60)
    parser.add_argument("--steps", type=int, default=220)
    arguments = parser.parse_args()
    for deep_norm in (True, False):
        train(arguments.layers, deep_norm, arguments.steps)


if __name__ == "__main__":
    main()
