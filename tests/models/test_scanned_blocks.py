"""Scan over layers: the same training, of a program that has each block once."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.models import scanned_blocks
from keras_transformer.training.config import load_config
from keras_transformer.training.model import compiled_model
from reference import configs
from reference.weights import ids

PARTS = {"dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.1}
STACK = {"num_encoder_layers": 2, "num_decoder_layers": 2}


def batch(rows=4):
    target = ids((5, 3, 5, 4) * rows, seed=2)
    labels = np.concatenate([target[:, 1:], np.full_like(target[:, :1], 2)], axis=1)
    return {"source": ids((7, 4, 6, 7) * rows, seed=1), "target": target}, labels


def make_model(name, scans, **fields):
    keras.utils.set_random_seed(1)
    model = kt.Transformer(configs.config(name, **{**PARTS, **STACK, **fields}))
    model.scans_layers = scans
    model.compile(
        keras.optimizers.SGD(0.5),
        kt.training.LabelSmoothedCrossEntropy(0.1),
        jit_compile=backends.name == "jax",
    )
    return model


def trained(name, scans, micro_batches=1, rematerializes=False, **fields):
    """Weights, states of dropout and losses after four steps."""
    model = make_model(name, scans, **fields)
    model.micro_batches = micro_batches
    model.rematerializes = rematerializes
    history = model.fit(*batch(), batch_size=4, shuffle=False, verbose=0)
    return (
        [backends.to_numpy(weight) for weight in model.trainable_variables],
        [backends.to_numpy(state) for state in model.non_trainable_variables],
        history.history["loss"],
    )


@pytest.mark.skipif(backends.name != "jax", reason="changes nothing elsewhere")
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("as T5", {"micro_batches": 2}),  # positions that all blocks share
        ("paper", {"rematerializes": True, "num_decoder_layers": 1}),
    ],
)
def test_training_is_the_same(name, options):
    """Dropout, too, which each block draws as if it stood alone."""
    plain, states, losses = trained(name, False, **options)
    again, states_again, losses_again = trained(name, True, **options)
    np.testing.assert_allclose(losses_again, losses, rtol=1e-5)
    for weight, expected in zip(again, plain, strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-5)
    assert states
    for state, expected in zip(states_again, states, strict=True):
        np.testing.assert_array_equal(state, expected)


@pytest.mark.skipif(backends.name != "jax", reason="reads a program of JAX")
def test_the_program_does_not_grow_with_the_blocks():
    import jax

    def num_products(scans, num_layers):
        sizes = {"num_encoder_layers": num_layers, "num_decoder_layers": num_layers}
        model = make_model("paper", scans, **sizes)
        model.optimizer.build(model.trainable_variables)
        groups = (
            model.trainable_variables,
            model.non_trainable_variables,
            model.optimizer.variables,
            model.metrics_variables,
        )
        state = tuple([v.value for v in group] for group in groups)
        inputs, labels = batch(1)
        step = jax.jit(model.train_step)
        return step.lower(state, (inputs, labels)).as_text().count("dot_general")

    # Keys and values of the source are projected before the loop.
    assert num_products(True, 4) - num_products(True, 2) < 14
    assert num_products(False, 4) - num_products(False, 2) > 70


@pytest.mark.one_backend
def test_blocks_that_differ_are_not_scanned():
    blocks = make_model("paper", True).encoder_blocks
    assert scanned_blocks.can_scan(blocks)
    assert not scanned_blocks.can_scan(blocks[:1])
    assert not scanned_blocks.can_scan([])
    blocks[1].trainable = False
    assert not scanned_blocks.can_scan(blocks)
    others = make_model("paper", True, activation="gelu").encoder_blocks
    assert not scanned_blocks.can_scan([blocks[0], others[0]])


@pytest.mark.one_backend
def test_a_run_says_so_by_a_key():
    tokenizer = kt.data.Tokenizer.train(["ab bc cd de"] * 9, 270)
    settings = ["training.scan_layers=true", "model.preset=tiny"]
    model = compiled_model(load_config(None, settings), (tokenizer, tokenizer))
    assert model.scans_layers
    config = load_config(None, [*settings[:1], "model.kind=recurrent"])
    with pytest.raises(InputError, match=r"scan_layers is for model\.kind transformer"):
        compiled_model(config, (tokenizer, tokenizer))
