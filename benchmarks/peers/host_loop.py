"""The program of `host_overhead.py` on one backend: `train`'s steps, and a hand's."""

import sys
import time

import keras
import numpy as np
from turns import serve

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.token_rows import EncodedPairs
from keras_transformer.data.token_rows import TokenRows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.losses import LabelSmoothedCrossEntropy
from keras_transformer.metrics import GradientNorm
from keras_transformer.metrics import NegativeLogLikelihood
from keras_transformer.metrics import TokenAccuracy
from keras_transformer.models.weights import weight_values
from keras_transformer.training.callbacks import Progress
from keras_transformer.training.callbacks import ResumeState
from keras_transformer.training.callbacks import StopOnNaN
from keras_transformer.training.callbacks import StopOnSignal
from keras_transformer.training.stepping import train_steps

D, V, SHAPES, ALIKE = 16, 1000, 4, 20


def make_batches(bpe_dropout):
    random = np.random.default_rng(1)
    letters = np.array(list("etaoinshrdlu"))
    words = ["".join(random.choice(letters, n)) for n in random.integers(2, 8, 2000)]
    lines = [" ".join(random.choice(words, n)) for n in random.integers(3, 15, 20_000)]
    tokenizer = Tokenizer.train(lines[:2000], vocabulary_size=V)
    rows = TokenRows.from_lists(tokenizer.encode(lines))
    again = BPEDropout(tokenizer, tokenizer, 0.1) if bpe_dropout else None
    pairs = EncodedPairs(rows, rows)
    return TokenBatches(pairs, 4096, max_buckets=SHAPES, bpe_dropout=again)


def make_model():
    keras.utils.set_random_seed(1)
    config = TransformerConfig(
        vocabulary_size=V,
        hidden_dim=D,
        intermediate_dim=2 * D,
        num_heads=2,
        num_encoder_layers=1,
        num_decoder_layers=1,
        dropout=0.1,
    )
    model = Transformer(config)
    model.compile(
        keras.optimizers.Adam(1e-3, beta_2=0.98, epsilon=1e-9, global_clipnorm=1.0),
        LabelSmoothedCrossEntropy(0.1),
        metrics=[NegativeLogLikelihood(), TokenAccuracy(), GradientNorm()],
        jit_compile=keras.backend.backend() == "jax",
    )
    model.optimizer.build(model.trainable_variables)
    return model


class Train:
    """The steps of `keras-transformer train`."""

    def __init__(self, batches):
        self.batches, self.model, self.done = batches, make_model(), 0
        tokens = batches.num_tokens / len(batches)
        self.progress = Progress(0, 10**9, tokens, interval=1e9)
        self.stop = StopOnSignal()

    def train(self, steps):
        begin, self.done = self.done, self.done + steps
        callbacks = [self.progress, ResumeState(), StopOnNaN(), self.stop]
        train_steps(self.model, self.batches, begin, self.done, callbacks)


class Hand:
    """A loop of one's own."""

    def __init__(self, batches):
        self.batches, self.model, self.done = batches, make_model(), 0
        self.step, self.end = globals()[f"{keras.backend.backend()}_loop"](self.model)

    def train(self, steps):
        begin, self.done = self.done, self.done + steps
        return [self.batches[step] for step in range(begin, self.done)]


def loss_of(model, batch):
    inputs, labels, weights = batch
    hidden = model.hidden_states(inputs, training=True)
    output = model.output_embedding
    matrix, bias = output.matrix("embeddings"), output.bias
    return model.loss.fused(hidden, matrix, bias, labels, weights, training=True)[0]


def jax_loop(model):
    import jax

    optimizer = model.optimizer
    groups = model.trainable_variables, model.non_trainable_variables
    state = [[v.value for v in group] for group in (*groups, optimizer.variables)]

    def loss(trainable, others, batch):
        mapping = [
            *zip(groups[0], trainable, strict=True),
            *zip(groups[1], others, strict=True),
        ]
        with keras.StatelessScope(state_mapping=mapping) as scope:
            value = loss_of(model, batch)
        return value, [scope.get_current_value(v) for v in groups[1]]

    def update(state, batch):
        trainable, others, moments = state
        gradient = jax.value_and_grad(loss, has_aux=True)
        (value, others), gradients = gradient(trainable, others, batch)
        trainable, moments = optimizer.stateless_apply(moments, gradients, trainable)
        return value, [trainable, others, moments]

    program = jax.jit(update, donate_argnums=0)

    def step(batch):
        nonlocal state
        value, state = program(state, batch)
        return value

    def end():
        jax.block_until_ready(state)
        for variables, values in zip(
            (*groups, optimizer.variables), state, strict=True
        ):
            for variable, value in zip(variables, values, strict=True):
                variable.assign(jax.numpy.copy(value))

    return step, end


def tensorflow_loop(model):
    import tensorflow as tf

    variables = model.trainable_variables

    @tf.function(reduce_retracing=True)
    def step(batch):
        with tf.GradientTape() as tape:
            value = loss_of(model, batch)
        gradients = tape.gradient(value, [v.value for v in variables])
        model.optimizer.apply(
            [tf.convert_to_tensor(gradient) for gradient in gradients], variables
        )
        return value

    return lambda batch: step(keras.tree.map_structure(tf.constant, batch)), int


def torch_loop(model):
    import torch

    variables = model.trainable_variables
    parameters = [variable.value for variable in variables]

    def step(batch):
        batch = keras.tree.map_structure(keras.ops.convert_to_tensor, batch)
        value = loss_of(model, batch)
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            model.optimizer.apply(gradients, variables)
        return value.detach()

    return step, int


def main():
    batches = make_batches("--bpe-dropout" in sys.argv)
    ours, hand = Train(batches), Hand(batches)

    def measure(work, steps):
        wall, cpu = time.perf_counter(), time.process_time()
        work()
        found = time.perf_counter() - wall, time.process_time() - cpu
        return [1000 * seconds / steps for seconds in found]

    def by_hand(steps):
        ready = hand.train(steps)

        def loop():
            for batch in ready:
                value = hand.step(batch)
            return float(value)

        found = measure(loop, steps)
        hand.end()
        return found

    ours.train(ALIKE)
    by_hand(ALIKE)
    both = (weight_values(one.model).values() for one in (ours, hand))
    difference = max(float(abs(a - b).max()) for a, b in zip(*both, strict=True))
    ours.train(2 * ALIKE)
    by_hand(2 * ALIKE)

    def work(job):
        steps = job["steps"]
        mine = measure(lambda: ours.train(steps), steps)
        other = by_hand(steps)
        return {
            "train": mine[0],
            "by hand": other[0],
            "more": mine[0] - other[0],
            "train, CPU": mine[1],
            "by hand, CPU": other[1],
            "difference": difference,
        }

    serve(work)


if __name__ == "__main__":
    main()
