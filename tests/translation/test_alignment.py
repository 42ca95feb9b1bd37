"""Words of pieces, and which of them belong together."""

import numpy as np
import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.translation.alignment import align
from keras_transformer.translation.alignment import word_numbers

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize(
    ("pieces", "words"),
    [
        ([], []),
        (["a", "b"], [0, 0]),
        (["▁a", "▁b"], [0, 1]),
        (["a▁", "b"], [0, 1]),
        (["▁▁", "a", "▁", "▁", "b"], [None, 0, None, None, 1]),
        (["a", "<0xE2>", "<0x82>", "<0xAC>", "▁b"], [0, 0, 0, 0, 1]),
        (["a", "<0x09>", "b"], [0, None, 1]),  # a tab
        (["a", "<0xC2>", "<0xA0>", "b"], [0, None, None, 1]),  # a no-break space
        (["a", "<0xE2>", "▁b"], [0, 0, 1]),  # bytes that are no character
    ],
)
def test_words_are_what_white_space_separates(pieces, words):
    assert word_numbers(pieces) == words


def test_words_are_those_of_the_text():
    lines = ["Ein Mann  schläft.", " a 🐌\tb ", "x\u00a0y €", "low lower lowest"]
    tokenizer = Tokenizer.train(["low lower lowest a man"] * 9, 280)
    for line in lines:
        pieces = tokenizer.pieces(tokenizer.encode([line])[0])
        numbers = [word for word in word_numbers(pieces) if word is not None]
        assert numbers == sorted(numbers)
        assert set(numbers) == set(range(len(line.split())))


def test_a_pair_of_words_for_each_piece():
    source, target = ["▁the", "▁", "ho", "use"], ["▁das", "▁Ha", "us"]
    weights = np.zeros((4, 5))  # the end of both has a row and a column
    weights[0, [0, 4]] = 0.4, 0.6  # the end is no word, nor is a space
    weights[1, [1, 2]] = 0.7, 0.3
    weights[2, [0, 3]] = 0.5, 0.5  # of equals, the first
    weights[3, 0] = 1.0
    assert align(weights, source, target) == [(0, 0), (0, 1), (1, 1)]
    assert align(weights, ["▁"], target) == []
    assert align(weights, source, []) == []
