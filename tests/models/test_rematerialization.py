"""Blocks that the backward pass computes again: the same training, less memory."""

import keras
import numpy as np
import pytest

import keras_transformer as kt
from keras_transformer import backends
from keras_transformer.errors import InputError
from keras_transformer.training.config import load_config
from keras_transformer.training.model import compiled_model
from reference import configs
from reference.weights import ids

PARTS = {"dropout": 0.1, "attention_dropout": 0.1}


def trained(rematerializes, micro_batches=1, name="as T5"):
    """Weights, states of dropout and losses after three steps."""
    keras.utils.set_random_seed(1)
    model = kt.Transformer(configs.config(name, **PARTS))
    model.rematerializes = rematerializes
    model.micro_batches = micro_batches
    model.compile(
        keras.optimizers.SGD(0.5),
        kt.training.LabelSmoothedCrossEntropy(0.1),
        jit_compile=backends.name == "jax",
    )
    target = ids((5, 3, 5, 4) * 3, seed=2)
    labels = np.concatenate([target[:, 1:], np.full_like(target[:, :1], 2)], axis=1)
    inputs = {"source": ids((7, 4, 6, 7) * 3, seed=1), "target": target}
    history = model.fit(inputs, labels, batch_size=4, shuffle=False, verbose=0)
    return (
        [backends.to_numpy(weight) for weight in model.trainable_variables],
        [backends.to_numpy(state) for state in model.non_trainable_variables],
        history.history["loss"],
    )


@pytest.mark.parametrize(
    "micro_batches", [1, pytest.param(2, marks=pytest.mark.one_backend)]
)
def test_training_is_the_same(micro_batches):
    """Also dropout, of which each layer draws as often as without it."""
    plain, states, losses = trained(False, micro_batches)
    again, states_again, losses_again = trained(True, micro_batches)
    np.testing.assert_allclose(losses_again, losses, rtol=1e-5)
    for weight, expected in zip(again, plain, strict=True):
        np.testing.assert_allclose(weight, expected, rtol=1e-4, atol=1e-5)
    assert states
    for state, expected in zip(states_again, states, strict=True):
        np.testing.assert_array_equal(state, expected)


@pytest.mark.one_backend
def test_less_is_kept_for_the_backward_pass():
    """What PyTorch saves for it: the inputs of each block instead of all inside it."""
    import torch

    saved = {}
    for rematerializes in (False, True):
        model = kt.Transformer(configs.config("paper", num_encoder_layers=6))
        model.rematerializes = rematerializes
        sizes = []

        def note(tensor, sizes=sizes):
            sizes.append(tensor.numel())
            return tensor

        source = keras.ops.convert_to_tensor(ids((9,) * 4, seed=1))
        with torch.autograd.graph.saved_tensors_hooks(note, lambda tensor: tensor):
            model.encode(source, training=True)
        saved[rematerializes] = sum(sizes)
    assert saved[True] < saved[False] / 3


@pytest.mark.one_backend
def test_other_kinds_of_models_refuse_it():
    settings = ["training.remat=true", "model.kind=recurrent"]
    config = load_config(None, settings)
    tokenizer = kt.data.Tokenizer.train(["ab bc cd de"] * 9, 270)
    with pytest.raises(InputError, match=r"remat is for model\.kind transformer"):
        compiled_model(config, (tokenizer, tokenizer))
