"""An ensemble against NumPy: the mean of its members, in every way of asking."""

import numpy as np
import pytest
from keras import ops
from keras import tree

from keras_transformer import backends
from keras_transformer.decoding import DecodingOptions
from keras_transformer.errors import InputError
from keras_transformer.models import KINDS
from keras_transformer.models import Ensemble
from keras_transformer.models.ensemble import COMBINATIONS
from keras_transformer.models.scoring import score
from keras_transformer.models.search import search
from reference.weights import scatter

pytestmark = pytest.mark.one_backend("torch", "jax")

SOURCE = np.array([[5, 9, 7, 2], [6, 2, 0, 0]], "int32")
OPTIONS = DecodingOptions(beam_size=2, coverage_penalty=0.3)
LABELS = np.array([[4, 8, 10, 2], [9, 2, 0, 0]], "int32")


def member(seed, kind="transformer", **fields):
    fields = {"vocabulary_size": 13, "hidden_dim": 8, "num_encoder_layers": 1} | fields
    if kind == "transformer":
        fields |= {"num_heads": 2, "intermediate_dim": 7}
    return scatter(KINDS[kind]({"num_decoder_layers": 1} | fields), seed, deviation=0.7)


@pytest.fixture(scope="module")
def members():
    """One of each kind."""
    return [
        member(1),
        member(2, "convolutional", num_decoder_layers=2, hidden_dim=12),
        member(3, "recurrent", hidden_dim=6, max_sequence_length=9),
    ]


@pytest.fixture(scope="module")
def found(members):
    """All that is compared, from one compiled program."""
    start = np.ones_like(LABELS[:, :1])
    target = np.concatenate([start, LABELS[:, :-1]], axis=1)
    both = {name: Ensemble(members, name) for name in COMBINATIONS}
    ensemble = both["probabilities"]

    def run(source, target, labels):
        inputs = {"source": source, "target": target}
        memory, mask, _ = ensemble.encode(source)
        hidden, _, (attention,) = ensemble.decode(
            target, memory, mask, return_attention_weights=True
        )
        constants, cache = ensemble.start(memory, mask, 1, 4)
        steps, maps = [], []
        for position in range(2):
            token = target[:, position : position + 1]
            logits, cache, (weights,) = ensemble.decode_step(
                token, position, constants, cache, return_attention_weights=True
            )
            steps.append(logits[:, 0])
            maps.append(weights[:, 0, 0])
        alone, twice = (
            search(model, source, labels[:, 0] * 0 + 5, length=5, options=OPTIONS)
            for model in (members[0], Ensemble(members[:1] * 2))
        )
        return {
            "members": [model(inputs) for model in members],
            "both": {name: model(inputs) for name, model in both.items()},
            "score": score(ensemble, source, labels),
            "whole": (ensemble.logits(hidden)[:, :2], attention[:, 0, :2]),
            "steps": (ops.stack(steps, axis=1), ops.stack(maps, axis=1)),
            "searches": [(r.tokens, r.scores) for r in (alone, twice)],
        }

    result = backends.compile(run, ensemble)(SOURCE, target, LABELS)
    return tree.map_structure(ops.convert_to_numpy, result)


def softmax(logits):
    exponentials = np.exp(logits.astype("float64"))
    return exponentials / exponentials.sum(-1, keepdims=True)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_is_the_mean_of_its_members(found, combination):
    each = np.stack([softmax(logits) for logits in found["members"]])
    mean = each.mean(0)
    if combination == "log_probabilities":
        mean = softmax(np.log(each).mean(0))
    np.testing.assert_allclose(softmax(found["both"][combination]), mean, rtol=1e-4)
    if combination == "probabilities":
        chosen = np.take_along_axis(np.log(mean), LABELS[..., None], axis=2)[..., 0]
        sums = (chosen * (LABELS != 0)).sum(1)
        np.testing.assert_allclose(found["score"], sums, rtol=1e-4)


def test_a_step_at_a_time_is_the_same(found):
    for whole, steps in zip(found["whole"], found["steps"], strict=True):
        np.testing.assert_allclose(steps, whole, atol=1e-4)


def test_one_member_twice_is_that_member(found):
    (tokens, scores), (same_tokens, same_scores) = found["searches"]
    np.testing.assert_array_equal(tokens, same_tokens)
    np.testing.assert_allclose(scores, same_scores, rtol=1e-4)


@pytest.mark.parametrize("combination", COMBINATIONS)
def test_a_penalty_of_logits_is_the_same_of_one_member_twice(members, combination):
    """It depends on their sign, which a softmax leaves open."""
    twice = Ensemble(members[:1] * 2, combination)
    inputs = {"source": SOURCE, "target": LABELS}
    both = (backends.to_numpy(model(inputs)) for model in (members[0], twice))
    np.testing.assert_allclose(*both, atol=1e-5)


@pytest.mark.one_backend
def test_the_shortest_limit_holds(members):
    assert Ensemble(members).config.longest_sequence == 9
    shorter = member(3, position="learned", max_sequence_length=6)
    assert Ensemble([*members, shorter]).config.longest_sequence == 6


@pytest.mark.one_backend
def test_attention_is_that_of_all_members_or_none(members):
    both = Ensemble([members[0], member(4, "recurrent", attention="none")])
    memory, mask, _ = both.encode(ops.convert_to_tensor(SOURCE))
    target = ops.convert_to_tensor(LABELS)
    assert len(both.decode(target, memory, mask).hidden) == 2
    with pytest.raises(InputError, match="but this recurrent model has none"):
        both.decode(target, memory, mask, return_attention_weights=True)


@pytest.mark.one_backend
def test_refuses_what_does_not_go_together(members):
    with pytest.raises(InputError, match="source_vocabulary_size 13, 14; give models"):
        Ensemble([members[0], member(0, vocabulary_size=14)])
    with pytest.raises(InputError, match="needs at least one model"):
        Ensemble([])
    with pytest.raises(InputError, match="must be one of probabilities, log_"):
        Ensemble(members, "mean")
