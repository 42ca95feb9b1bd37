import numpy as np
import numpy_search
import pytest
from lattices import END
from lattices import Lattice
from lattices import assert_same

from reference.marks import on_one_backend

pytestmark = pytest.mark.one_backend


@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("vocabulary_size", "beam_size", "alpha"),
    [
        (11, 4, 0.6),
        on_one_backend(5, 6, 0.0),
        on_one_backend(5, 1, 0.6),
        on_one_backend(7, 2, 0.0),
        on_one_backend(5, 3, 1.0),
        on_one_backend(11, 6, 1.0),
    ],
)
def test_equals_the_reference(vocabulary_size, beam_size, alpha):
    rows, length = 24, 9
    lattice = Lattice.random(beam_size * 100 + vocabulary_size, rows, vocabulary_size)
    limits = np.arange(rows) % length + 1
    top_beams = (beam_size + 1) // 2
    results = lattice.search(
        limits,
        beam_size=beam_size,
        length=length,
        top_beams=top_beams,
        length_penalty=alpha,
    )
    for row, result in enumerate(results):
        expected = numpy_search.beam_search(
            lattice.logits_of(row), limits[row], beam_size, top_beams, alpha, END
        )
        assert_same(result, expected)


@pytest.mark.parametrize("alpha", [1.0, 0.0, 0.6])
def test_a_wide_beam_finds_all_that_is_best(alpha):
    rows, vocabulary_size, limit, top_beams = 6, 5, 3, 10
    longest = (vocabulary_size - 1) ** (limit - 1) * vocabulary_size
    lattice = Lattice.random(7, rows, vocabulary_size)
    results = lattice.search(
        [limit] * rows,
        beam_size=longest // 2,  # nothing is ever dropped
        length=limit,
        top_beams=top_beams,
        length_penalty=alpha,
    )
    for row, result in enumerate(results):
        expected = numpy_search.all_hypotheses(
            lattice.logits_of(row), limit, vocabulary_size, alpha, END
        )
        assert_same(result, expected[:top_beams])


def test_what_has_ended_is_never_scored_again():
    a = 3
    lattice = Lattice.of({(): {END: 0.6, a: 0.4}, (a,): {END: 1.0}}, 5)
    (result,) = lattice.search([4], beam_size=2, length=4, top_beams=2)
    assert [h.tokens for h in result] == [(END,), (a, END)]
    np.testing.assert_allclose(
        np.exp([h.log_probability for h in result]), [0.6, 0.4], 1e-6
    )


def test_the_length_penalty_prefers_the_longer():
    a = 3
    transitions = {(): {END: 0.5, a: 0.5}, (a,): {a: 1.0}, (a, a): {END: 0.9, a: 0.1}}
    lattice = Lattice.of(transitions, 5)
    options = {"beam_size": 2, "length": 3}
    assert lattice.search([3], length_penalty=0.0, **options)[0][0].tokens == (END,)
    (result,) = lattice.search([3], length_penalty=1.0, **options)
    assert result[0].tokens == (a, a, END)
    np.testing.assert_allclose(result[0].score, np.log(0.45) / (8 / 6), rtol=1e-6)


def test_a_row_goes_on_until_its_last_hypothesis_is_settled():
    # The best ends first; whether the second best has, decides when n-best may stop.
    a, b = 3, 4
    transitions = {
        (): {END: 0.5, a: 0.3, b: 0.2},
        (b,): {END: 0.9, a: 0.1},
        (a,): {a: 1.0},
        (a, a): {END: 0.9, a: 0.1},
    }
    lattice = Lattice.of(transitions, 5)
    options = {"beam_size": 3, "length": 6, "length_penalty": 0.0}
    (one,) = lattice.search([6], top_beams=1, **options)
    (two,) = lattice.search([6], top_beams=2, **options)
    assert [h.tokens for h in one] == [(END,)]
    assert [h.tokens for h in two] == [(END,), (a, a, END)]


def test_fewer_hypotheses_than_asked_for_give_a_shorter_list():
    lattice = Lattice.of({(): {END: 0.3, 3: 0.7}}, 5)
    (result,) = lattice.search(
        [3], beam_size=3, length=5, top_beams=3, suppressed=(0, 1, 3, 4)
    )
    assert [h.tokens for h in result] == [(END,)]


@pytest.mark.parametrize("beam_size", [1, 2, 3])
def test_what_the_limit_cuts_competes_by_its_score(beam_size):
    """An improbable end does not beat what is nearly sure and only not yet ended."""
    a = 3
    sure = Lattice.of({(): {END: 1e-4, a: 1.0}, (a,): {a: 1.0}, (a, a): {a: 1.0}}, 5)
    options = {"beam_size": beam_size, "length": 5, "top_beams": beam_size}
    (result,) = sure.search([3], **options)
    assert (result[0].tokens, result[0].finished) == ((a, a, a), False)
    np.testing.assert_allclose(result[0].log_probability, 0.0, atol=2e-4)
    if beam_size > 1:
        assert (result[1].tokens, result[1].finished) == ((END,), True)
    # What ends and is better comes first, and equal ones in order of age.
    other = Lattice.of({(): {END: 0.5, a: 0.5}, (a,): {a: 1.0}, (a, a): {a: 1.0}}, 5)
    (result,) = other.search([3], length_penalty=0.0, **options)
    assert [h.tokens for h in result[:2]] == [(END,), (a, a, a)][:beam_size]
    # Below the limit nothing is cut.
    (result,) = other.search([1], **options)
    assert [h.tokens for h in result[:2]] == [(END,), (a,)][:beam_size]


def test_patience_counts_what_ends_among_the_best_of_the_beam():
    a, b = 3, 4
    ends = {(token,): {END: 1.0} for token in (a, b)}
    lattice = Lattice.of({(): {a: 0.5, b: 0.3, END: 0.2}, **ends}, 5)
    options = {"length": 4, "length_penalty": 0.0, "patience": 0.5}
    # Of the first step the end comes third: of two beams it does not count.
    (result,) = lattice.search([4], beam_size=2, **options)
    assert [h.tokens for h in result] == [(a, END)]
    # Of three it does.
    options["patience"] = 0.3
    (result,) = lattice.search([4], beam_size=3, **options)
    assert [h.tokens for h in result] == [(END,)]


def test_without_an_ending_the_live_ones_are_returned():
    lattice = Lattice.random(3, 4, 7)
    limits = [1, 2, 5, 7]
    options = {"beam_size": 3, "length": 8, "top_beams": 2, "suppressed": (END,)}
    results = lattice.search(limits, **options)
    for row, result in enumerate(results):
        expected = numpy_search.beam_search(
            lattice.logits_of(row), limits[row], 3, 2, 0.6, END, (END,)
        )
        assert [len(h.tokens) for h in result] == [limits[row]] * 2
        assert not any(h.finished for h in result)
        assert_same(result, expected)


def test_suppressed_tokens_keep_their_share_of_probability():
    lattice = Lattice.random(11, 12, 7)
    options = {"beam_size": 3, "length": 6, "top_beams": 3, "suppressed": (0, 1, 4)}
    results = lattice.search([6] * 12, **options)
    for row, result in enumerate(results):
        expected = numpy_search.beam_search(
            lattice.logits_of(row), 6, 3, 3, 0.6, END, (0, 1, 4)
        )
        assert_same(result, expected)
        assert not {0, 1, 4} & {token for h in result for token in h.tokens}


def test_rows_do_not_touch_each_other():
    rows, limits = 5, [3, 9, 1, 6, 2]
    lattice = Lattice.random(5, rows, 7)
    options = {"beam_size": 3, "length": 9, "top_beams": 3}
    together = lattice.search(limits, **options)
    for row in range(rows):
        (alone,) = lattice.row(row).search(limits[row : row + 1], **options)
        assert_same(together[row], alone, tolerance=1e-6)


def test_a_row_without_limit_is_empty():
    lattice = Lattice.random(5, 3, 7)
    results = lattice.search([4, 0, 4], beam_size=3, length=4, top_beams=2)
    assert results[1] == []
    assert results[0] and results[2]


@pytest.mark.each_backend
def test_a_batch_of_empty_rows_ends_at_once():
    lattice = Lattice.random(5, 2, 7)
    assert lattice.search([0, 0], beam_size=2, length=4) == [[], []]


@pytest.mark.each_backend
@pytest.mark.parametrize(
    ("seed", "beam_size", "alpha"),
    [(2, 4, 1.0), *(on_one_backend(*case) for case in ((0, 2, 0.6), (1, 3, 0.0)))],
)
def test_ties_go_to_the_lower_beam_then_the_lower_id(seed, beam_size, alpha):
    # Four tokens of equal probability after every prefix: all hypotheses of a length
    # have exactly the same score.
    rows, vocabulary_size, limit = 16, 9, 6
    order = np.random.default_rng(seed).random((rows, 499, vocabulary_size))
    lattice = Lattice(np.where(order.argsort(-1) < 4, 0.0, -1e9))
    results = lattice.search(
        [limit] * rows,
        beam_size=beam_size,
        length=limit,
        top_beams=beam_size,
        length_penalty=alpha,
    )
    for row, result in enumerate(results):
        expected = numpy_search.beam_search(
            lattice.logits_of(row), limit, beam_size, beam_size, alpha, END
        )
        assert_same(result, expected)


@pytest.mark.parametrize("top_beams", [0, 3])
def test_refuses_more_hypotheses_than_beams(top_beams):
    with pytest.raises(ValueError, match=f"between 1 and beam_size 2, got {top_beams}"):
        Lattice.random(0, 1, 5).search([2], beam_size=2, length=2, top_beams=top_beams)


def test_refuses_a_negative_length_penalty():
    with pytest.raises(ValueError, match="at least 0, got -1"):
        Lattice.random(0, 1, 5).search([2], beam_size=2, length=2, length_penalty=-1.0)
