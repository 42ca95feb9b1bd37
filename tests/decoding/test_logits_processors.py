"""Each function that changes scores, against its definition in plain Python.

`test_search_options.py` searches with them on each backend.
"""

import numpy as np
import numpy_search
import pytest
from keras import ops

from keras_transformer.decoding import logits_processors

pytestmark = pytest.mark.one_backend
END, VOCABULARY_SIZE, ROWS, WIDTH, LENGTH = 2, 7, 3, 2, 6


def some_logits(seed=0):
    shape = ROWS, WIDTH, VOCABULARY_SIZE
    return np.random.default_rng(seed).normal(0, 2, shape).astype("float32")


def logs(seed=0):
    return np.apply_along_axis(numpy_search.log_softmax, -1, some_logits(seed))


def history(position, seed=0):
    """Tokens (B, W, L) of few kinds, so that they come again; pad after them."""
    tokens = np.random.default_rng(seed).integers(3, 5, (ROWS, WIDTH, LENGTH))
    tokens[..., position:] = 0
    return tokens.astype("int32")


OPTIONS = [
    {"repetition_penalty": 0.4},
    {"suppressed": (0, 1, 3, 4, 5, 6, 2, 0, 1)},  # as a mask
    {"min_length": 4},
    {"no_repeat_ngram_size": 1},
    {"no_repeat_ngram_size": 2},
    {"no_repeat_ngram_size": 7},
    {
        "repetition_penalty": 1.3,
        "suppressed": (5,),
        "min_length": 5,
        "no_repeat_ngram_size": 3,
    },
]


@pytest.mark.parametrize("position", [0, 2, 5])
@pytest.mark.parametrize("options", OPTIONS)
def test_equals_its_definition(options, position):
    tokens, logits = history(position, position), some_logits(position)
    process = logits_processors.chain(end_id=END, **options)
    found = process(
        ops.convert_to_tensor(logits),
        ops.convert_to_tensor(tokens),
        ops.convert_to_tensor(np.int32(position)),
        None,
    )
    expected = [
        [
            numpy_search.processed(
                logits[row, beam],
                tuple(tokens[row, beam, :position].tolist()),
                END,
                **options,
            )
            for beam in range(WIDTH)
        ]
        for row in range(ROWS)
    ]
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-5)


@pytest.mark.parametrize("logit", [9.0, 0.5, -3.0])
def test_a_repetition_penalty_lowers_a_logit_whatever_its_sign(logit):
    """A token that is nearly sure has a log-probability of nearly 0, and twice that."""
    logits = np.full((1, 1, VOCABULARY_SIZE), -1.0, "float32")
    logits[0, 0, 4] = logit
    found = logits_processors.chain(repetition_penalty=2.0)(
        ops.convert_to_tensor(logits),
        ops.convert_to_tensor(np.full((1, 1, LENGTH), 4, "int32")),
        ops.convert_to_tensor(np.int32(1)),
        None,
    )
    lower = logits[0, 0].astype("float64")
    lower[4] = logit / 2 if logit > 0 else logit * 2
    expected = numpy_search.log_softmax(lower)
    np.testing.assert_allclose(ops.convert_to_numpy(found)[0, 0], expected, rtol=1e-5)


def test_places_of_a_table_that_int32_cannot_count_are_right(monkeypatch):
    """The table is not made: what would be marked in it is looked at."""
    shape = (3, 2, 2**30)
    tokens = np.arange(6, dtype="int32").reshape(3, 2, 1) + 2**29

    class Filled(Exception):
        """Ends the call; holds the table's shape and the places."""

    def fill(table, places, updates, reduction):
        raise Filled(table, ops.convert_to_numpy(places).astype("int64"))

    monkeypatch.setattr(ops, "shape", lambda array: tuple(array.shape))
    monkeypatch.setattr(ops, "zeros", lambda shape, dtype: shape)
    monkeypatch.setattr(ops, "scatter_update", fill)
    log_probabilities = np.broadcast_to(np.float32(0), shape)
    with pytest.raises(Filled) as filled:
        logits_processors.penalize_repetition(
            log_probabilities, ops.convert_to_tensor(tokens), 1, 1.5
        )
    table, places = filled.value.args
    found = np.ravel_multi_index(tuple(places.T), table)
    expected = np.arange(6) * 2**30 + tokens.ravel()
    np.testing.assert_array_equal(found, expected)


def test_a_prefix_knows_no_other_rule():
    log_probabilities = logs()
    process = logits_processors.chain(
        suppressed=(4,), min_length=9, no_repeat_ngram_size=1, prefix=True
    )
    free = logits_processors.FREE
    prefix = ops.convert_to_tensor(np.array([[3, 4], [5, free], [free] * 2], "int32"))
    tokens = ops.convert_to_tensor(np.full((ROWS, WIDTH, LENGTH), 3, "int32"))
    found = process(
        ops.convert_to_tensor(log_probabilities),
        tokens,
        ops.convert_to_tensor(np.int32(1)),
        {"prefix": prefix},
    )
    found = ops.convert_to_numpy(found)
    expected = np.full((WIDTH, VOCABULARY_SIZE), -np.inf)
    expected[:, 4] = 0.0  # suppressed, but in the prefix
    np.testing.assert_array_equal(found[0], expected)
    assert (np.isneginf(found[1:]) == np.isin(np.arange(7), [2, 3, 4])).all()


def test_nothing_is_changed_by_default():
    log_probabilities = ops.convert_to_tensor(logs())
    found = logits_processors.chain()(log_probabilities, None, None, None)
    np.testing.assert_allclose(ops.convert_to_numpy(found), logs(), atol=1e-6)


@pytest.mark.parametrize("count", [1, 3, 6, 7, 50])
def test_top_k_keeps_the_best(count):
    scores = logs(count)
    found = ops.convert_to_numpy(
        logits_processors.keep_top_k(ops.convert_to_tensor(scores), count)
    )
    ranks = np.argsort(np.argsort(-scores, axis=-1), axis=-1)
    np.testing.assert_array_equal(found, np.where(ranks < count, scores, -np.inf))


@pytest.mark.parametrize("mass", [1e-6, 0.3, 0.7, 0.95])
def test_top_p_keeps_the_fewest_that_hold_the_mass(mass):
    scores = logs(3)
    scores[0, 0, :3] = -np.inf  # what is forbidden already has no part in it
    found = ops.convert_to_numpy(
        logits_processors.keep_top_p(ops.convert_to_tensor(scores), mass)
    )
    for before, after in zip(scores.reshape(-1, 7), found.reshape(-1, 7), strict=True):
        order = np.argsort(-before)
        probabilities = np.exp(before[order]) / np.exp(before).sum()
        count = int(np.searchsorted(np.cumsum(probabilities), mass)) + 1
        expected = np.full(7, -np.inf)
        expected[order[:count]] = before[order[:count]]
        np.testing.assert_array_equal(after, expected)


A, B, C = 3, 4, 5


@pytest.mark.parametrize(
    ("options", "tokens", "forbidden"),
    [
        ({"no_repeat_ngram_size": 2}, [A, B, A], {B}),
        ({"no_repeat_ngram_size": 2}, [A, A, B], set()),
        ({"no_repeat_ngram_size": 2}, [A, A], {A}),
        ({"no_repeat_ngram_size": 3}, [A, B, C, A, B], {C}),
        ({"no_repeat_ngram_size": 1}, [A, C], {A, C}),
        ({"min_length": 3}, [A], {END}),
        ({"min_length": 3}, [A, B], set()),  # the end is the third
        ({"suppressed": (B, 6)}, [A], {B, 6}),
    ],
)
def test_by_hand(options, tokens, forbidden):
    written = np.zeros((1, 1, LENGTH), "int32")
    written[0, 0, : len(tokens)] = tokens
    equal = np.full((1, 1, VOCABULARY_SIZE), -np.log(VOCABULARY_SIZE), "float32")
    found = logits_processors.chain(end_id=END, **options)(
        ops.convert_to_tensor(equal),
        ops.convert_to_tensor(written),
        ops.convert_to_tensor(np.int32(len(tokens))),
        None,
    )
    found = ops.convert_to_numpy(found)[0, 0]
    assert set(np.flatnonzero(np.isneginf(found))) == forbidden
    np.testing.assert_allclose(found[~np.isneginf(found)], equal.max(), rtol=1e-6)
