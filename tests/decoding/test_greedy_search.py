import numpy as np
import numpy_search
import pytest
from lattices import END
from lattices import Lattice
from lattices import assert_same

pytestmark = pytest.mark.one_backend


@pytest.mark.each_backend
@pytest.mark.parametrize(("vocabulary_size", "alpha"), [(11, 0.6), (7, 0.0)])
def test_equals_an_argmax_loop(vocabulary_size, alpha):
    rows, length = 24, 9
    lattice = Lattice.random(vocabulary_size, rows, vocabulary_size)
    limits = np.arange(rows) % length + 1
    results = lattice.search(limits, length=length, length_penalty=alpha)
    for row, result in enumerate(results):
        expected = numpy_search.greedy_search(
            lattice.logits_of(row), limits[row], alpha, END
        )
        assert_same(result, [expected])


def test_suppressed_tokens_are_never_chosen():
    lattice = Lattice.random(11, 12, 7)
    results = lattice.search([6] * 12, length=6, suppressed=(0, 1, 4))
    for row, result in enumerate(results):
        expected = numpy_search.greedy_search(
            lattice.logits_of(row), 6, 0.6, END, (0, 1, 4)
        )
        assert_same(result, [expected])


@pytest.mark.each_backend
def test_ties_go_to_the_lowest_id():
    rows, vocabulary_size = 16, 9
    order = np.random.default_rng(0).random((rows, 499, vocabulary_size))
    lattice = Lattice(np.where(order.argsort(-1) < 4, 0.0, -1e9))
    for row, result in enumerate(lattice.search([6] * rows, length=6)):
        expected = numpy_search.greedy_search(lattice.logits_of(row), 6, 0.6, END)
        assert_same(result, [expected])


def test_rows_do_not_touch_each_other():
    limits = [3, 9, 1, 6, 2]
    lattice = Lattice.random(5, len(limits), 7)
    together = lattice.search(limits, length=9)
    for row, result in enumerate(together):
        (alone,) = lattice.row(row).search(limits[row : row + 1], length=9)
        assert_same(result, alone, tolerance=1e-6)


def test_the_limit_cuts():
    lattice = Lattice.random(3, 3, 7)
    results = lattice.search([1, 4, 7], length=7, suppressed=(END,))
    assert [len(h.tokens) for (h,) in results] == [1, 4, 7]
    assert not any(h.finished for (h,) in results)


def test_a_row_without_limit_is_empty():
    results = Lattice.random(5, 3, 7).search([4, 0, 4], length=4)
    assert [len(result) for result in results] == [1, 0, 1]


def test_a_beam_of_one_may_end_where_greedy_goes_on():
    # The end comes second, and still has the best score of all that end.
    a = 3
    lattice = Lattice.of({(): {END: 0.4, a: 0.6}, (a,): {a: 0.6, END: 0.4}}, 5)
    (greedy,) = lattice.search([2], length=2)
    (beam,) = lattice.search([2], length=2, beam_size=1)
    assert greedy[0].tokens == (a, a)
    assert beam[0].tokens == (END,)
