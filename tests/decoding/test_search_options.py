"""Every option of the searches, on lattices, against plain Python."""

import functools

import lattices
import numpy as np
import numpy_search
import pytest
from keras import ops
from lattices import END
from lattices import Lattice
from lattices import assert_same

from keras_transformer import backends
from keras_transformer.decoding import beam_search
from keras_transformer.decoding import greedy_search
from keras_transformer.decoding.logits_processors import FREE
from keras_transformer.decoding.logits_processors import chain
from reference.marks import all_on_one_backend

pytestmark = pytest.mark.one_backend
ROWS, VOCABULARY_SIZE, LENGTH = 10, 7, 8
LIMITS = np.arange(ROWS) % LENGTH + 1
RULES = {
    "suppressed": (0, 1),
    "min_length": 4,
    "no_repeat_ngram_size": 2,
    "repetition_penalty": 1.4,
}
PREFIXES = [(3, 4, 5), (), (6,), (4, 4), (), (0, 1, 3), (5,), (3, 3, 3), (), (6, 6)]
PREFIXES = [prefix[:limit] for prefix, limit in zip(PREFIXES, LIMITS, strict=True)]


def decode_step(tokens, position, constants, cache):
    return lattices.decode_step(tokens, position, constants["table"], cache)


def covered(cache, constants):
    """Something that depends on all that has been read."""
    (state,) = cache
    return -0.4 * ops.cast(state[:, :, 0, 0, 0] % 5, "float32")


def run(limits, constants, cache, *, rules=(), **options):
    options |= {"start_id": lattices.START, "end_id": END, "pad_id": lattices.PAD}
    options["prefix"] = "prefix" in constants
    forced = {"first": "forced_start" in constants, "forced_end": "limits" in constants}
    process = chain(prefix=options["prefix"], end_id=END, **forced, **dict(rules))
    if options.pop("covered", False):
        options["coverage"] = covered
    if "rules_of" in options:
        options["rules"] = options.pop("rules_of")
    search = beam_search if "beam_size" in options else greedy_search
    arguments = (decode_step, constants, cache, limits)
    return search(*arguments, process=process, **options)


compiled = backends.compile(run, lattices.Weightless)


def results(lattice, limits, prefixes=None, **options):
    return lattices.hypotheses(result_of_search(lattice, limits, prefixes, **options))


def result_of_search(lattice, limits, prefixes=None, first=None, **options):
    table, cache = lattice.start(options.get("beam_size", 1))
    constants = {"table": table}
    if first is not None:
        constants["forced_start"] = ops.convert_to_tensor(np.array(first, "int32"))
    if options.pop("forced_end", False):
        constants["limits"] = ops.convert_to_tensor(np.array(limits, "int32"))
    if prefixes is not None:
        prefixes = [(*p, *[FREE] * (4 - len(p))) for p in prefixes]
        constants["prefix"] = ops.convert_to_tensor(np.array(prefixes, "int32"))
    if "rules" in options:
        options["rules"] = tuple(options["rules"].items())
    limits = ops.convert_to_tensor(np.asarray(limits, "int32"))
    return compiled(limits, constants, cache, length=LENGTH, **options)


def reference(lattice, row, prefix=(), rules=(), first=None, **options):
    logits_of = lattice.logits_of(row)
    options.setdefault("limit", LIMITS[row])
    limit = options["limit"] if options.pop("forced_end", False) else None
    forced = {"prefix": prefix, "first": first, "limit": limit}

    def scores_of(tokens):
        logits = logits_of(tokens)
        return numpy_search.processed(logits, tokens, END, **forced, **dict(rules))

    score = functools.partial(
        numpy_search.normalized,
        normalization=options.pop("normalization", "gnmt"),
        alpha=options.pop("length_penalty", 0.6),
    )
    if options.pop("covered", False):
        options["coverage_of"] = lambda tokens: -0.4 * (lattice.state(tokens) % 5)
    options["num_groups"] = options.pop("num_beam_groups", 1)
    return numpy_search.any_beam_search(scores_of, end_id=END, score=score, **options)


# Each stops as soon as nothing better can come; the reference never does.
SEARCHES = {
    "average": {
        "normalization": "average",
        "covered": True,
        "beam_size": 3,
        "top_beams": 2,
    },
    "power": {
        "normalization": "power",
        "length_penalty": 2.5,
        "beam_size": 2,
        "top_beams": 2,
    },
    "none": {"normalization": "none", "beam_size": 2, "top_beams": 2},
    "groups": {
        "num_beam_groups": 2,
        "diversity_penalty": 1.5,
        "beam_size": 4,
        "top_beams": 3,
    },
    "rules": {"rules": RULES, "patience": 1.5, "beam_size": 2, "top_beams": 2},
    "all": {
        "rules": RULES,
        "num_beam_groups": 3,
        "diversity_penalty": 0.7,
        "covered": True,
        "normalization": "average",
        "patience": 2.0,
        "beam_size": 6,
        "top_beams": 6,
    },
}


@pytest.mark.each_backend
@pytest.mark.parametrize("name", all_on_one_backend(SEARCHES, but=("rules", "all")))
def test_equals_the_reference(name):
    options = SEARCHES[name]
    prefixes = PREFIXES if name in ("rules", "all") else [()] * ROWS
    lattice = Lattice.random(len(name), ROWS, VOCABULARY_SIZE)
    given = prefixes if any(prefixes) else None
    found = results(lattice, LIMITS, given, **options)
    for row, hypotheses in enumerate(found):
        expected = reference(lattice, row, prefixes[row], **options)
        assert_same(hypotheses, expected)
    # A batch of unequal limits is what each row is alone.
    for row in (2, 7):
        limits = np.where(np.arange(ROWS) == row, LIMITS, 0)
        alone = results(lattice, limits, given, **options)[row]
        assert_same(found[row], alone, tolerance=1e-6)


@pytest.mark.parametrize(
    "early_stopping, alpha",
    [
        (False, 0.6),
        pytest.param("never", 1.0, marks=pytest.mark.one_backend),
        pytest.param("never", 0.0, marks=pytest.mark.one_backend),
        pytest.param(True, 2.0, marks=pytest.mark.one_backend),
    ],
)
def test_the_rules_of_transformers_are_those_of_its_search(early_stopping, alpha):
    lattice = Lattice.random(41, ROWS, VOCABULARY_SIZE)
    heuristic = "_heuristic" if early_stopping is False else ""
    options = {"beam_size": 3, "normalization": "power", "length_penalty": alpha}
    theirs = {"rules_of": f"transformers{heuristic}"}
    theirs["patience"] = 1.0 if early_stopping is True else None
    found = results(lattice, LIMITS, top_beams=3, **options, **theirs)
    ours = results(lattice, LIMITS, top_beams=3, **options)
    differing = 0
    for row, hypotheses in enumerate(found):
        logits_of = lattice.logits_of(row)
        expected = numpy_search.transformers_beam_search(
            lambda tokens, of=logits_of: numpy_search.log_softmax(of(tokens)),
            *(LIMITS[row], 3, END, alpha, early_stopping),
        )
        assert_same(hypotheses, expected)
        # Our best is never worse.
        assert ours[row][0].score >= hypotheses[0].score - 1e-5
        differing += [h.tokens for h in ours[row]] != [h.tokens for h in hypotheses]
    assert differing > 0 or alpha == 1.0
    # The best alone is the best of several.
    alone = results(lattice, LIMITS, top_beams=1, **options, **theirs)
    for one, several in zip(alone, found, strict=True):
        assert_same(one, several[:1])


@pytest.mark.one_backend
def test_rules_that_nobody_has_are_refused():
    lattice = Lattice.random(1, 1, VOCABULARY_SIZE)
    with pytest.raises(ValueError, match="got 'theirs'"):
        results(lattice, [3], beam_size=2, rules_of="theirs")
    groups = {"num_beam_groups": 2, "diversity_penalty": 0.5}
    with pytest.raises(ValueError, match="have no groups, got 2"):
        results(lattice, [3], beam_size=2, rules_of="transformers", **groups)


FIRST = [5, FREE, 1, 3, FREE, 6, 4, 5, 3, 2]  # the start and the end among them


@pytest.mark.each_backend
def test_a_first_token_and_the_end_at_the_limit_are_forced_at_no_cost():
    """Each row has its own first token, which no rule forbids; a prefix follows it."""
    options = {"rules": RULES, "beam_size": 4, "top_beams": 4, "num_beam_groups": 2}
    options |= {"diversity_penalty": 0.7, "normalization": "power"}
    limits = np.maximum(LIMITS, 3)
    prefixes = [(), (), (6,), (), (4,), (), (), (5,), (), ()]
    lattice = Lattice.random(31, ROWS, VOCABULARY_SIZE)
    given = [
        p if first == FREE else (FREE, *p)
        for p, first in zip(prefixes, FIRST, strict=True)
    ]
    found = results(lattice, limits, given, first=FIRST, forced_end=True, **options)
    cut = 0
    for row, hypotheses in enumerate(found):
        first = None if FIRST[row] == FREE else FIRST[row]
        expected = reference(
            lattice,
            row,
            prefixes[row],
            first=first,
            forced_end=True,
            limit=limits[row],
            **options,
        )
        assert_same(hypotheses, expected)
        assert all(h.finished for h in hypotheses)
        if first is not None:
            assert all(h.tokens[0] == first for h in hypotheses)
        cut += sum(len(h.tokens) == limits[row] for h in hypotheses)
    assert cut > ROWS


@pytest.mark.parametrize("seed", range(200, 210))
def test_groups_see_those_that_are_settled(seed):
    """Until a row ends, its settled groups still tell the others what they take."""
    options = {"beam_size": 4, "top_beams": 4, "num_beam_groups": 4}
    options["diversity_penalty"] = 1.5
    lattice = Lattice.random(seed, ROWS, VOCABULARY_SIZE, spread=3.0)
    found = results(lattice, LIMITS, **options)
    for row, hypotheses in enumerate(found):
        assert_same(hypotheses, reference(lattice, row, **options))


def test_what_several_groups_find_is_given_once():
    a, b = 3, 4
    ends = {(t,): {END: 1.0} for t in (a, b)}
    lattice = Lattice.of({(): {a: 0.9, b: 0.1}, **ends}, 6)
    options = {"beam_size": 4, "top_beams": 4, "num_beam_groups": 2}
    (found,) = results(lattice, [4], diversity_penalty=1e-3, **options)
    assert [h.tokens for h in found] == [(a, END), (b, END)]
    # Nothing ends: of what is alive, too.
    options |= {"rules": {"suppressed": (END,)}, "diversity_penalty": 1e-3}
    lattice = Lattice.random(3, ROWS, VOCABULARY_SIZE)
    found = results(lattice, LIMITS, **options)
    for row, hypotheses in enumerate(found):
        assert len({h.tokens for h in hypotheses}) == len(hypotheses)
        assert_same(hypotheses, reference(lattice, row, **options))
    assert any(len(hypotheses) == 2 for hypotheses in found)


def test_what_has_not_ended_is_in_order_of_its_score():
    options = {"covered": True, "rules": {"suppressed": (END,)}, "beam_size": 4}
    lattice = Lattice.random(8, ROWS, VOCABULARY_SIZE)
    turned = 0
    for groups in ({}, {"num_beam_groups": 2, "diversity_penalty": 0.5}):
        options |= groups
        found = results(lattice, LIMITS, top_beams=2, **options)
        for row, hypotheses in enumerate(found):
            expected = reference(lattice, row, top_beams=4, **options)
            assert_same(hypotheses, expected[:2])
            totals = [h.log_probability for h in expected]
            turned += totals != sorted(totals, reverse=True)
    assert turned > ROWS // 2, "coverage must turn the order"


@pytest.mark.parametrize("width", [None, 1, 3])
def test_where_every_token_is_forbidden_there_is_no_hypothesis(width):
    lattice = Lattice.random(2, 3, VOCABULARY_SIZE)
    options = {} if width is None else {"beam_size": width}
    forbidden = tuple(range(VOCABULARY_SIZE))
    prefixes = [(), (3, 4), (3, END)]
    found = results(
        lattice, [3, 3, 3], prefixes, rules={"suppressed": forbidden}, **options
    )
    assert [[h.tokens for h in row] for row in found] == [[], [], [(3, END)]]


def test_greedy_follows_rules_and_prefixes():
    lattice = Lattice.random(3, ROWS, VOCABULARY_SIZE)
    found = results(lattice, LIMITS, PREFIXES, rules=RULES, normalization="average")
    for row, (hypothesis,) in enumerate(found):
        expected = greedy_reference(lattice.logits_of(row), PREFIXES[row], LIMITS[row])
        assert hypothesis.tokens == expected
        mean = hypothesis.log_probability / len(expected)
        np.testing.assert_allclose(hypothesis.score, mean, rtol=1e-6)


def greedy_reference(logits_of, prefix, limit):
    tokens = ()
    while len(tokens) < limit and END not in tokens:
        logits = logits_of(tokens)
        scores = numpy_search.processed(logits, tokens, END, prefix=prefix, **RULES)
        tokens += (int(np.argmax(scores)),)
    return tokens


def test_a_wide_beam_finds_all_that_is_best():
    limit, vocabulary_size, normalization = 3, 5, "average"
    longest = (vocabulary_size - 1) ** (limit - 1) * vocabulary_size
    lattice = Lattice.random(7, 4, vocabulary_size)
    found = results(
        lattice,
        [limit] * 4,
        beam_size=longest // 2,  # nothing is ever dropped
        top_beams=10,
        normalization=normalization,
    )
    for row, hypotheses in enumerate(found):
        every = numpy_search.all_hypotheses(
            lattice.logits_of(row), limit, vocabulary_size, 0.0, END
        )
        every = [
            h._replace(
                score=numpy_search.normalized(
                    h.log_probability, len(h.tokens), normalization, 0.0
                )
            )
            for h in every
        ]
        assert_same(hypotheses, numpy_search.best_first(every)[:10])


def test_groups_differ_where_one_group_would_not():
    a, b, c = 3, 4, 5
    ends = {(t,): {END: 1.0} for t in (a, b, c)}
    lattice = Lattice.of({(): {a: 0.6, b: 0.3, c: 0.1}, **ends}, 6)
    options = {"beam_size": 2, "top_beams": 2, "num_beam_groups": 2}
    (strong,) = results(lattice, [4], diversity_penalty=1.0, **options)
    assert [h.tokens for h in strong] == [(a, END), (b, END)]
    # The penalty chooses; it is no part of a log-probability.
    probabilities = np.exp([h.log_probability for h in strong])
    np.testing.assert_allclose(probabilities, [0.6, 0.3], rtol=1e-5)


def test_patience_ends_a_search_that_would_find_better():
    a = 3
    lattice = Lattice.of({(): {END: 0.3, a: 0.7}, (a,): {END: 1.0}}, 5)
    (found,) = results(lattice, [4], beam_size=2, normalization="none", patience=0.5)
    assert [h.tokens for h in found] == [(END,)]
    (patient,) = results(lattice, [4], beam_size=2, normalization="none")
    assert [h.tokens for h in patient] == [(a, END)]


A, B = 3, 4
GROUPS = {
    "beam_size": 4,
    "top_beams": 2,
    "num_beam_groups": 2,
    "diversity_penalty": 0.01,
}
# The most probable is A A A; B comes in where a rule wants it.
AGAIN = {
    (): {A: 0.7, B: 0.3},
    (A,): {A: 0.6, END: 0.4},
    (A, A): {A: 0.6, END: 0.4},
    (A, A, A): {END: 1.0},
    (B,): {A: 0.9, END: 0.1},
    (B, A): {END: 0.8, A: 0.2},
    (B, A, A): {END: 1.0},
}


@pytest.mark.parametrize(
    ("rules", "prefix", "tokens", "probability"),
    [
        ({}, None, (A, A, A, END), 0.7 * 0.6 * 0.6),
        # 0.6 squared is less than the 0.4 of the end.
        ({"repetition_penalty": 2.0}, None, (A, END), 0.7 * 0.4),
        ({"no_repeat_ngram_size": 2}, None, (A, A, END), 0.7 * 0.6 * 0.4),
        ({"suppressed": (A,), "min_length": 1}, None, (B, END), 0.3 * 0.1),
        # What is forced has no part in it; the search goes on from there.
        ({}, (B,), (B, A, END), 0.9 * 0.8),
        ({}, (A, A, END), (A, A, END), 1.0),
        ({"no_repeat_ngram_size": 1}, (A, A), (A, A, END), 0.4),
    ],
)
def test_a_rule_turns_the_search_by_hand(rules, prefix, tokens, probability):
    lattice = Lattice.of(AGAIN, 6)
    prefixes = None if prefix is None else [prefix]
    ((found,),) = results(lattice, [8], prefixes, rules=rules)
    assert found.tokens == tokens
    if "repetition_penalty" not in rules:
        expected = np.log(probability)
        np.testing.assert_allclose(found.log_probability, expected, 1e-5, 1e-6)


@pytest.mark.parametrize("options", [{}, {"beam_size": 2, "top_beams": 2}, GROUPS])
def test_a_forced_prefix_costs_nothing_counts_in_lengths_and_is_told_apart(options):
    """An improbable one would make whatever is longer look better."""
    after = {END: 0.6, A: 0.4}
    ends = {(B, B, A): {A: 1.0}, (B, B, A, A): {A: 1.0}, (B, B, A, A, A): {END: 1.0}}
    lattice = Lattice.of(
        {(): {A: 0.5, B: 1e-6}, (B,): {A: 0.9, B: 1e-5}, (B, B): after, **ends}, 6
    )
    result = result_of_search(lattice, [8], [(B, B)], length_penalty=1.0, **options)
    found, *others = lattices.hypotheses(result)[0]
    assert found.tokens == (B, B, END)
    np.testing.assert_allclose(found.log_probability, np.log(0.6), 1e-5)
    np.testing.assert_allclose(found.score, np.log(0.6) / (8 / 6), 1e-5)
    if others:
        assert others[0].tokens == (B, B, A, A, A, END)
        np.testing.assert_allclose(others[0].score, np.log(0.4) / (11 / 6), 1e-5)
    prefix = ops.convert_to_numpy(result.prefix_log_probabilities)
    np.testing.assert_allclose(
        prefix, [np.log(1e-6) - np.log(0.500001) + np.log(1e-5) - np.log(0.90001)], 1e-5
    )
    # With a counted prefix the longer one would win.
    forced = prefix[0]
    assert (forced + np.log(0.6)) / (8 / 6) < (forced + np.log(0.4)) / (11 / 6)


def test_a_longer_one_is_found_where_the_shorter_is_forbidden():
    lattice = Lattice.of({(): {END: 0.9, A: 0.1}, (A,): {END: 0.5, B: 0.5}}, 6)
    for min_length, tokens in ((0, (END,)), (2, (A, END))):
        ((found,),) = results(lattice, [8], rules={"min_length": min_length})
        assert found.tokens == tokens


def test_coverage_prefers_what_has_read_the_source():
    """`covered` takes 0.4 for each unit of the state modulo 5."""
    ends = {(token,): {END: 1.0} for token in (A, B)}
    lattice = Lattice.of({(): {A: 0.45, B: 0.55}, **ends}, 6)
    lost = {token: -0.4 * (lattice.state((token,)) % 5) for token in (A, B)}
    assert lost[B] < lost[A] + np.log(0.45 / 0.55), "it must turn the choice"
    options = {"beam_size": 2, "top_beams": 2, "normalization": "none"}
    (plain,) = results(lattice, [4], **options)
    assert [h.tokens for h in plain] == [(B, END), (A, END)]
    (found,) = results(lattice, [4], covered=True, **options)
    assert [h.tokens for h in found] == [(A, END), (B, END)]
