"""Samples: the random numbers, what is drawn, and independence of the batch."""

import lattices
import numpy as np
import numpy_search
import pytest
from keras import ops
from lattices import END
from lattices import Lattice

from keras_transformer import backends
from keras_transformer.decoding import sample
from keras_transformer.decoding.logits_processors import chain
from keras_transformer.decoding.sampling import gumbel
from keras_transformer.decoding.sampling import sample_keys

ROWS, SAMPLES, VOCABULARY_SIZE, LENGTH = 6, 4, 7, 6


def test_the_noise_is_that_of_the_definition():
    keys = np.stack([sample_keys(3, (number,), 2) for number in (1, 2, 3)])
    noise = backends.compile(gumbel, lattices.Weightless)
    found = noise(ops.convert_to_tensor(keys), ops.convert_to_tensor(5), count=11)
    expected = [
        [[numpy_search.noise(key, 5, token) for token in range(11)] for key in row]
        for row in keys
    ]
    np.testing.assert_allclose(ops.convert_to_numpy(found), expected, rtol=1e-4)


@pytest.mark.one_backend
def test_the_noise_has_the_distribution_of_gumbel():
    keys = np.stack([sample_keys(0, (number,), 4) for number in range(50)])
    keys = ops.convert_to_tensor(keys)
    found = np.stack(
        [ops.convert_to_numpy(gumbel(keys, position, 500)) for position in (0, 1)]
    )
    uniform = np.sort(np.exp(-np.exp(-found.astype("float64"))).ravel())
    grid = (np.arange(uniform.size) + 0.5) / uniform.size
    # Kolmogorov and Smirnov's bound at one in a million, of 200,000 numbers.
    assert np.abs(uniform - grid).max() < 2.7 / np.sqrt(uniform.size)
    for axis in range(4):  # neighbours in any direction have nothing in common
        rows = np.moveaxis(found, axis, 0)
        correlation = np.corrcoef(rows[:-1].ravel(), rows[1:].ravel())[0, 1]
        assert abs(correlation) < 5 / np.sqrt(rows[1:].size)


def test_fewer_samples_have_the_first_keys():
    many = sample_keys(7, (3, 1), 9)
    np.testing.assert_array_equal(sample_keys(7, (3, 1), 4), many[:4])
    assert len({tuple(key) for key in many}) == 9
    assert not np.array_equal(sample_keys(8, (3, 1), 9), many)
    assert not np.array_equal(sample_keys(7, (3,), 9), many)


def run(limits, keys, constants, cache, suppressed=(), **options):
    options["process"] = chain(suppressed=suppressed, end_id=END)
    return sample(lattices.decode_step, constants, cache, limits, keys, **options)


compiled = backends.compile(run, lattices.Weightless)


def samples(lattice, limits, keys, **options):
    constants, cache = lattice.start(keys.shape[1])
    limits = ops.convert_to_tensor(np.asarray(limits, "int32"))
    result = compiled(limits, ops.convert_to_tensor(keys), constants, cache, **options)
    return lattices.hypotheses(result)


@pytest.mark.parametrize(
    "options", [{}, {"temperature": 0.5, "top_k": 4, "top_p": 0.8}]
)
def test_what_is_drawn_is_the_maximum_with_noise(options):
    lattice = Lattice.random(1, ROWS, VOCABULARY_SIZE, spread=1.0)
    limits = np.arange(ROWS) % LENGTH + 1
    keys = np.stack([sample_keys(5, (row,), SAMPLES) for row in range(ROWS)])
    found = samples(lattice, limits, keys, length=LENGTH, **options)
    for row, hypotheses in enumerate(found):
        for key, hypothesis in zip(keys[row], hypotheses, strict=True):
            tokens, total = numpy_search.sample(
                lattice.logits_of(row),
                lambda tokens, logits: numpy_search.log_softmax(logits),
                limits[row],
                key,
                END,
                **options,
            )
            assert hypothesis.tokens == tokens
            np.testing.assert_allclose(hypothesis.log_probability, total, rtol=1e-5)
    # A row alone, the others empty: what they are does not matter.
    alone = np.where(np.arange(ROWS) == 3, limits, 0)
    assert samples(lattice, alone, keys, length=LENGTH, **options)[3] == found[3]


def test_tokens_are_as_frequent_as_they_are_probable():
    a, b = 3, 4
    probabilities = {a: 0.5, b: 0.2, END: 0.3}
    lattice = Lattice.of({(): probabilities}, 5)
    lattice = Lattice(np.repeat(lattice.tables, ROWS, axis=0))
    keys = np.stack([sample_keys(0, (row,), 500) for row in range(ROWS)])
    found = samples(lattice, [1] * ROWS, keys, length=1)
    drawn = [h.tokens[0] for row in found for h in row]
    for token, probability in probabilities.items():
        share = drawn.count(token) / len(drawn)
        error = np.sqrt(probability * (1 - probability) / len(drawn))
        assert abs(share - probability) < 5 * error


@pytest.mark.one_backend
@pytest.mark.parametrize("options", [{}, {"top_k": 2, "top_p": 0.5}])
def test_where_every_token_is_forbidden_there_is_no_sample(options):
    lattice = Lattice.random(1, ROWS, VOCABULARY_SIZE)
    keys = np.zeros((ROWS, 2, 2), "int32")
    options["suppressed"] = tuple(range(VOCABULARY_SIZE))
    assert samples(lattice, [3] * ROWS, keys, length=3, **options) == [[]] * ROWS
