"""Random bytes are those of a hash written out here, and look like chance."""

import keras
import numpy as np
import pytest

from keras_transformer import backends
from keras_transformer.backends.steps import Rows
from keras_transformer.backends.steps import drawing

WORD = 2**32


def mixed(word, key=0):
    word = (word ^ word >> 16) * 0x85EBCA6B % WORD ^ key
    word = (word ^ word >> 13) * 0xC2B2AE35 % WORD
    return word ^ word >> 16


def expected_words(number, seed):
    """With Python's integers, which have no width."""
    one = mixed(seed[0] * 0x9E3779B9 % WORD ^ seed[1])
    other = mixed(one * 0x9E3779B9 % WORD ^ seed[0])
    return [mixed(place * 0x9E3779B9 % WORD ^ one, other) for place in range(number)]


class Seeds:
    """Gives the seed it was made with, as a `SeedGenerator` does."""

    def __init__(self, *seed):
        generator = keras.random.SeedGenerator(seed[0])
        self.value = keras.ops.cast(np.array(seed), generator.state.dtype)

    def next(self):
        return self.value


def drawn(shape, *seed):
    found = backends.random_bytes(keras.ops.zeros(shape), Seeds(*seed))
    return keras.ops.convert_to_numpy(found)


@pytest.mark.parametrize("shape", [(4,), (3, 5, 7), (1, 1)])
@pytest.mark.parametrize("seed", [(0, 0), (3, 2), (2**31 - 1, 77_777)])
def test_bytes_are_those_of_the_hash(shape, seed):
    size = int(np.prod(shape))
    words = np.array(expected_words(-(-size // 4), seed), "<u4")
    expected = words.view("uint8")[:size].reshape(shape)
    found = drawn(shape, *seed)
    assert found.dtype == "uint8"
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("shape", [(12, 3, 8), (12, 3, 5)])
@pytest.mark.parametrize("times", [1, 2])
def test_a_part_of_the_rows_draws_what_the_whole_batch_draws_for_them(shape, times):
    """Every third row, and six rows in the middle; also where each is there twice."""
    whole = drawn(shape, 3, 2)
    batch = whole.reshape(shape[0] // times, times, *shape[1:])
    every_third = Rows(len(batch) // 3, first=1, step=3)
    middle = Rows(len(batch) // 2, first=len(batch) // 4)
    for rows, expected in ((every_third, batch[1::3]), (middle, batch[3 // times :])):
        expected = expected[: rows.count].reshape(-1, *shape[1:])
        with drawing(rows):
            found = drawn(expected.shape, 3, 2)
        np.testing.assert_array_equal(found, expected)


def surplus(values, kinds):
    """χ² of a uniform draw, in standard deviations from what chance gives."""
    counts = np.bincount(values.reshape(-1), minlength=kinds)
    expected = values.size / kinds
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    return (chi_squared - (kinds - 1)) / np.sqrt(2 * (kinds - 1))


def pairs(first, second):
    return (first >> 4).astype(int) * 16 + (second >> 4)


def test_bytes_neighbours_and_following_draws_are_independent():
    size = 2**20
    for seed in ((0, 0), (0, 1), (123_456_789, 41)):
        found = drawn((size,), *seed)
        for lane in range(4):
            assert abs(surplus(found[lane::4], 256)) < 5
        for distance in (1, 4, 128, 512, 4096):
            assert abs(surplus(pairs(found[:-distance], found[distance:]), 256)) < 5
        for following in ((seed[0], seed[1] + 1), (seed[0] + 1, seed[1])):
            assert abs(surplus(pairs(found, drawn((size,), *following)), 256)) < 5


def test_a_place_draws_independently_step_after_step():
    found = np.stack([drawn((4,), 9, step) for step in range(500)])
    ones = np.unpackbits(found, axis=-1).mean(0)
    assert np.abs(ones - 0.5).max() < 5 * 0.5 / np.sqrt(500)
