"""Batches of a real corpus, and batches in plain `fit`."""

import keras
import numpy as np
import pytest
from random_pairs import VOCABULARY_SIZE
from random_pairs import as_tuples
from random_pairs import contents
from random_pairs import random_pairs

from keras_transformer.data.batching import TokenBatches
from keras_transformer.data.corpus import read_parallel
from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.tokenizer import Tokenizer

no_backend = pytest.mark.no_backend


@no_backend
def test_real_corpus(shared_data):
    folder = shared_data / "multi30k" / "raw"
    text = read_parallel([folder / "train.en.gz"], [folder / "train.de.gz"])
    tokenizer = Tokenizer.train(text.source + text.target, 8000)
    pairs, _ = encode_pairs(text, tokenizer, tokenizer, 128)
    batches = TokenBatches(pairs, 4096)
    assert sorted(contents(batches)) == sorted(as_tuples(pairs))
    assert batches.padding < 0.16


def toy_model():
    source = keras.Input((None,), dtype="int32", name="source")
    target = keras.Input((None,), dtype="int32", name="target")
    embedding = keras.layers.Embedding(VOCABULARY_SIZE, 5)
    context = keras.layers.GlobalAveragePooling1D(keepdims=True)(embedding(source))
    hidden = keras.layers.Add()([embedding(target), context])
    logits = keras.layers.Dense(VOCABULARY_SIZE)(hidden)
    model = keras.Model({"source": source, "target": target}, logits)
    model.compile(
        keras.optimizers.SGD(0.5),
        keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="sum"),
    )
    return model


def test_fit_learns_from_an_epoch():
    keras.utils.set_random_seed(1)
    batches = TokenBatches(random_pairs(300), 512, max_buckets=2)
    validation = TokenBatches(random_pairs(30), 512, max_buckets=2, shuffle=False)
    history = (
        toy_model()
        .fit(batches, epochs=2, validation_data=validation, shuffle=False, verbose=0)
        .history
    )
    assert history["loss"][0] == pytest.approx(np.log(VOCABULARY_SIZE), abs=0.3)
    assert history["loss"][1] < history["loss"][0]
    assert np.isfinite(history["val_loss"]).all()


def test_one_fit_after_another_sees_what_one_of_as_many_epochs_sees():
    """With a share, of which each epoch has another half."""
    pairs = random_pairs(40)
    seen = []
    for fits, epochs in ((1, 4), (4, 1), (2, 2)):
        batches = TokenBatches(pairs, 4096, max_buckets=1, shares=[(40, 0.5)])
        epochs_seen = []
        note = keras.callbacks.LambdaCallback(
            on_epoch_begin=lambda *_, batches=batches, seen=epochs_seen: seen.append(
                batches.epoch
            )
        )
        model = toy_model()
        for _ in range(fits):
            model.fit(batches, epochs=epochs, verbose=0, callbacks=[note])
        seen.append(epochs_seen)
    assert seen == [[1, 2, 3, 4]] * 3
    batches = TokenBatches(pairs, 4096)
    for epoch in range(3):  # in a loop of one's own
        assert batches.epoch == epoch
        batches.on_epoch_end()


@no_backend
def test_a_loop_of_ones_own_goes_on_from_a_step():
    batches = TokenBatches(random_pairs(300), 512, max_buckets=2)
    step = len(batches) + 3
    for found, index in zip(batches.from_step(step), range(4), strict=False):
        right = batches[step + index]
        np.testing.assert_array_equal(found[0]["source"], right[0]["source"])


def test_fit_by_steps_sees_every_batch_in_order_and_can_be_resumed():
    """Windows of steps that do not divide the epoch, against one step at a time."""
    keras.utils.set_random_seed(1)
    batches = TokenBatches(random_pairs(120), 512, max_buckets=2)
    steps = 4 * 3
    assert len(batches) < steps
    assert len(batches) % 3
    expected, whole, resumed = toy_model(), toy_model(), toy_model()
    for model in (whole, resumed):
        model.set_weights(expected.get_weights())
    for step in range(steps):
        inputs, labels, weights = batches[step]
        expected.train_on_batch(inputs, labels, sample_weight=weights)

    options = {"steps_per_epoch": 3, "shuffle": False, "verbose": 0}
    whole.fit(batches.from_step(0), epochs=4, **options)
    resumed.fit(batches.from_step(0), epochs=1, **options)
    resumed.fit(batches.from_step(3), epochs=3, **options)
    for model in (whole, resumed):
        assert int(model.optimizer.iterations) == steps
        for one, other in zip(model.weights, expected.weights, strict=True):
            np.testing.assert_allclose(
                keras.ops.convert_to_numpy(one),
                keras.ops.convert_to_numpy(other),
                atol=1e-5,
            )
