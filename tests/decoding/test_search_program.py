"""The NumPy search that exports carry, against the searches' definition.

B batch, W beam width, C continuations, V vocabulary.
"""

import numpy as np
import numpy_search
import pytest
from lattices import END
from lattices import START
from lattices import Lattice
from lattices import assert_same

from keras_transformer.export.programs.search import beam_search
from keras_transformer.export.programs.search import greedy_search

pytestmark = pytest.mark.no_backend


class Step:
    """The step of an export, on a lattice; a cache is the ids so far."""

    def __init__(self, lattice, rows, beam_size):
        self.lattice = lattice
        self.prefixes = [[()] * beam_size for _ in range(rows)]

    def __call__(self, tokens, position, beams, count):
        self.prefixes = [
            [row[beam] for beam in continued]
            for row, continued in zip(self.prefixes, beams, strict=True)
        ]
        if position:
            self.prefixes = [
                [(*prefix, int(token)) for prefix, token in zip(*pair, strict=True)]
                for pair in zip(self.prefixes, tokens, strict=True)
            ]
        else:
            assert (tokens == START).all()
        scores = np.array(
            [
                [
                    numpy_search.log_softmax(self.lattice.logits_of(number)(prefix))
                    for prefix in row
                ]
                for number, row in enumerate(self.prefixes)
            ],
            np.float32,
        )
        ids = np.argsort(-scores, axis=-1, kind="stable")[..., :count]
        return np.take_along_axis(scores, ids, axis=-1), ids.astype(np.int32)


def as_reference(hypotheses):
    return [
        numpy_search.Hypothesis(tuple(h.ids), h.log_probability, h.score, h.finished)
        for h in hypotheses
    ]


SIZES = [
    ((5, 1), 0.6),
    ((7, 2), 0.0),
    ((5, 3), 1.0),
    ((11, 4), 0.6),
    ((5, 6), 0.0),
    ((11, 6), 1.0),
    ((7, 2), 0.6),
]


@pytest.mark.parametrize(("sizes", "alpha"), SIZES)
def test_beam_search_equals_the_reference(sizes, alpha):
    vocabulary_size, beam_size = sizes
    rows, top_beams = 12, (beam_size + 1) // 2
    lattice = Lattice.random(beam_size * 10 + vocabulary_size, rows, vocabulary_size)
    limits = np.arange(rows) % 9 + 1
    results = beam_search(
        Step(lattice, rows, beam_size), limits, START, END, alpha, beam_size, top_beams
    )
    for row, result in enumerate(results):
        expected = numpy_search.beam_search(
            lattice.logits_of(row), limits[row], beam_size, top_beams, alpha, END
        )
        assert_same(as_reference(result), expected)


@pytest.mark.parametrize("spread", [2.0, 0.0])  # 0: nothing but ties
def test_greedy_search_equals_the_reference(spread):
    rows = 9
    lattice = Lattice.random(3, rows, 7, spread=spread)
    limits = np.arange(rows) + 1
    results = greedy_search(Step(lattice, rows, 1), limits, START, END, 0.6)
    for row, result in enumerate(results):
        expected = numpy_search.greedy_search(
            lattice.logits_of(row), limits[row], 0.6, END
        )
        assert_same(as_reference(result), [expected])


def test_equal_hypotheses_come_in_order_of_their_ids():
    lattice = Lattice.random(3, 1, 6, spread=0.0)
    (found,) = beam_search(Step(lattice, 1, 3), [3], START, END, 0.0, 3, 3)
    expected = numpy_search.beam_search(lattice.logits_of(0), 3, 3, 3, 0.0, END)
    assert_same(as_reference(found), expected)
