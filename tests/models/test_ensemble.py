"""An ensemble against NumPy: the mean of its members, in every way of asking."""

import numpy as np
import pytest
from keras import ops

from keras_transformer import Transformer
from keras_transformer import TransformerConfig
from keras_transformer.errors import InputError
from keras_transformer.models import Ensemble
from keras_transformer.models.search import score
from keras_transformer.models.search import search

SOURCE = np.array([[5, 9, 7, 2], [6, 2, 0, 0]], "int32")
LABELS = np.array([[4, 8, 10, 2], [9, 2, 0, 0]], "int32")


def member(seed, **fields):
    fields = {"vocabulary_size": 13, "hidden_dim": 8, "num_heads": 2} | fields
    fields |= {"intermediate_dim": 7, "num_encoder_layers": 1}
    model = Transformer(TransformerConfig(**{"num_decoder_layers": 1} | fields))
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        value = rng.normal(0.0, 0.7, variable.shape)
        variable.assign(value + ("gamma" in variable.path))
    return model


@pytest.fixture(scope="module")
def members():
    return [
        member(1),
        member(2, num_decoder_layers=2, hidden_dim=12, max_sequence_length=9),
    ]


def probabilities(model):
    start = np.ones_like(LABELS[:, :1])
    target = np.concatenate([start, LABELS[:, :-1]], axis=1)
    logits = model({"source": SOURCE, "target": target})
    return ops.convert_to_numpy(ops.softmax(logits, axis=-1)).astype("float64")


def expected(members, combination):
    each = np.stack([probabilities(model) for model in members])
    if combination == "probabilities":
        return each.mean(0)
    mean = np.exp(np.log(each).mean(0))
    return mean / mean.sum(-1, keepdims=True)


@pytest.mark.parametrize("combination", ["probabilities", "log_probabilities"])
def test_is_the_mean_of_its_members(members, combination):
    ensemble = Ensemble(members, combination)
    wanted = expected(members, combination)
    np.testing.assert_allclose(probabilities(ensemble), wanted, rtol=1e-4)

    chosen = np.take_along_axis(np.log(wanted), LABELS[..., None], axis=2)[..., 0]
    sums = (chosen * (LABELS != 0)).sum(1)
    found = score(ensemble, *map(ops.convert_to_tensor, (SOURCE, LABELS)))
    np.testing.assert_allclose(ops.convert_to_numpy(found), sums, rtol=1e-4)


def test_a_step_at_a_time_is_the_same(members):
    ensemble = Ensemble(members)
    memory, mask = ensemble.encode(ops.convert_to_tensor(SOURCE))
    constants, cache = ensemble.start(memory, mask, 1, 4)
    tokens = np.concatenate([np.ones_like(LABELS[:, :1]), LABELS[:, :-1]], axis=1)
    hidden, _, (attention,) = ensemble.decode(
        ops.convert_to_tensor(tokens), memory, mask, return_attention_weights=True
    )
    whole = ops.convert_to_numpy(ensemble.logits(hidden))
    for position in range(4):
        logits, cache, (weights,) = ensemble.decode_step(
            ops.convert_to_tensor(tokens[:, position : position + 1]),
            ops.convert_to_tensor(np.int32(position)),
            constants,
            cache,
            return_attention_weights=True,
        )
        logits, weights = map(ops.convert_to_numpy, (logits, weights))
        np.testing.assert_allclose(logits[:, 0], whole[:, position], atol=1e-4)
        at_once = ops.convert_to_numpy(attention)[:, 0, position]
        np.testing.assert_allclose(weights[:, 0, 0], at_once, atol=1e-5)


def test_one_member_twice_is_that_member(members):
    arguments = ops.convert_to_tensor(SOURCE), ops.convert_to_tensor(np.int32([5, 4]))
    options = {"beam_size": 2, "length": 5, "coverage_penalty": 0.3}
    alone = search(members[0], *arguments, **options)
    twice = search(Ensemble([members[0]] * 2), *arguments, **options)
    np.testing.assert_array_equal(
        ops.convert_to_numpy(alone.tokens), ops.convert_to_numpy(twice.tokens)
    )
    np.testing.assert_allclose(
        ops.convert_to_numpy(alone.scores), ops.convert_to_numpy(twice.scores), 1e-4
    )


def test_the_shortest_limit_holds(members):
    assert Ensemble(members).config.longest_sequence == 9
    shorter = member(3, position="learned", max_sequence_length=6)
    assert Ensemble([*members, shorter]).config.longest_sequence == 6


def test_refuses_what_does_not_go_together(members):
    with pytest.raises(InputError, match="source_vocabulary_size 13, 14; give models"):
        Ensemble([members[0], member(0, vocabulary_size=14)])
    with pytest.raises(InputError, match="needs models"):
        Ensemble([])
    with pytest.raises(InputError, match="must be one of probabilities, log_"):
        Ensemble(members, "mean")
