"""Metrics of the user: what they get, what they may return, what ranks by them."""

import json
import sys
import types

import numpy as np
import pytest

from keras_transformer import learned_metrics
from keras_transformer.errors import InputError
from keras_transformer.translation import minimum_bayes_risk
from keras_transformer.translation import reranking
from keras_transformer.translation.hypothesis import Hypothesis

pytestmark = pytest.mark.no_backend

SOURCES = ["a b", "c", "d e f"]
HYPOTHESES = ["A B", "X", "D"]
REFERENCES = ["A B", "C", "D E F"]


def overlap(sources, hypotheses, references):
    """The share of the reference's words that a translation has."""
    pairs = zip(hypotheses, references, strict=True)
    words = [(set(h.split()), set(r.split())) for h, r in pairs]
    return [len(one & other) / len(other) for one, other in words]


def length(sources, hypotheses, references):
    """A judge without references: longer is better."""
    assert references is None and len(sources) == len(hypotheses)
    return list(map(len, hypotheses))


def hypothesis(text, log_probability=-1.0):
    return Hypothesis(text, [], [], log_probability, log_probability, True)


def test_a_score_is_the_mean_and_says_whose_it_is():
    (score,) = learned_metrics.evaluate(
        {"my_metrics:overlap": overlap}, SOURCES, HYPOTHESES, REFERENCES
    )
    assert str(score) == "overlap = 0.4444 (my_metrics:overlap)"
    assert score.interval is None
    (score,) = learned_metrics.evaluate(
        {"m:overlap": overlap}, SOURCES, HYPOTHESES, REFERENCES, confidence=200
    )
    assert 0.2 < score.interval < 0.6
    assert score.signature == "m:overlap|bs:200|seed:12345"


def test_one_number_for_all_has_no_interval_and_ranks_nothing():
    def corpus(sources, hypotheses, references):
        return np.float32(0.5)

    (score,) = learned_metrics.evaluate(
        {"m:corpus": corpus}, SOURCES, HYPOTHESES, REFERENCES, confidence=100
    )
    assert (score.score, score.interval) == (0.5, None)
    with pytest.raises(InputError, match="m:corpus returned one number for all"):
        learned_metrics.of_sentences("m:corpus", corpus, SOURCES, HYPOTHESES, None)


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        ([0.5], r"m:f returned numbers of shape \(1,\) for 3 translations"),
        ([[0.1], [0.2], [0.3]], r"of shape \(3, 1\) for 3"),
        ([0.1, float("nan"), 0.2], "m:f returned a number that is not finite"),
        (None, "m:f returned a number that is not finite"),
        (["a", "b", "c"], "m:f returned list that holds no numbers"),
        ({"system_score": 0.5}, "m:f returned dict that holds no numbers"),
    ],
)
def test_what_is_no_score_is_refused(returned, message):
    metrics = {"m:f": lambda *_: returned}
    with pytest.raises(InputError, match=message):
        learned_metrics.evaluate(metrics, SOURCES, HYPOTHESES, REFERENCES)


def test_a_metric_that_fails_says_where():
    def broken(sources, hypotheses, references):
        return {}["score"]

    def within_a_library(sources, hypotheses, references):
        return json.loads("{")

    def without_memory(sources, hypotheses, references):
        raise MemoryError

    message = r"m:g failed in .*test_learned_metrics\.py, line \d+: JSONDecodeError: "
    with pytest.raises(InputError, match=message):
        learned_metrics.evaluate({"m:g": within_a_library}, ["a"], ["b"], ["c"])
    with pytest.raises(InputError, match="m:len failed in"):
        learned_metrics.evaluate({"m:len": len}, ["a"], ["b"], ["c"])
    with pytest.raises(MemoryError):
        learned_metrics.evaluate({"m:h": without_memory}, ["a"], ["b"], ["c"])
    message = r"m:f failed in .*test_learned_metrics\.py, line \d+: KeyError: 'score'"
    with pytest.raises(InputError, match=message):
        learned_metrics.evaluate({"m:f": broken}, SOURCES, HYPOTHESES, REFERENCES)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("named_metrics", "--metric: expected module:function, such as my_metrics:co"),
        ("named_metrics:missing", "has no missing; check the name"),
        ("named_metrics:number", "named_metrics:number is int, not a function"),
        ("no_such_module:f", "there is no module no_such_module"),
    ],
)
def test_what_names_no_metric_is_refused(path, message, monkeypatch):
    module = types.ModuleType("named_metrics")
    module.__file__ = "named_metrics.py"
    module.number, module.overlap = 7, overlap
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert learned_metrics.found(["named_metrics:overlap"], "--metric") == {
        "named_metrics:overlap": overlap
    }
    with pytest.raises(InputError, match=message):
        learned_metrics.found([path], "--metric")


def test_minimum_bayes_risk_by_a_metric():
    """By hand: of three candidates, the one that has most of the others' words."""
    texts, logs = ["a b", "a c", "a b"], [np.log(0.5), np.log(0.3), np.log(0.2)]
    calls = []

    def counted(sources, hypotheses, references):
        calls.append((sources, hypotheses, references))
        return overlap(sources, hypotheses, references)

    found = minimum_bayes_risk.ranked(
        texts, logs, counted, sampled=False, source="x", path="m:counted"
    )
    # 0.7 of the weight is on "a b", 0.3 on "a c"; they share one word of two.
    expected = [(0, 0.7 + 0.3 / 2), (2, 0.85), (1, 0.3 + 0.7 / 2)]
    assert [place for place, _ in found] == [place for place, _ in expected]
    np.testing.assert_allclose(*([u for _, u in rows] for rows in (found, expected)))
    ((sources, hypotheses, references),) = calls
    assert sources == ["x"] * 4
    assert hypotheses == ["a b", "a b", "a c", "a c"]
    assert references == ["a b", "a c", "a b", "a c"]


def test_hypotheses_by_quality():
    rows = [[hypothesis("a"), hypothesis("aaa"), hypothesis("bbb")], [hypothesis("")]]
    found = reranking.by_quality(rows, ["s", "t"], "m:length", length)
    assert [[h.text for h in row] for row in found] == [["aaa", "bbb", "a"], [""]]
    assert [[h.utility for h in row] for row in found] == [[3, 3, 1], [0]]
    assert reranking.by_quality([], [], "m:length", lambda *_: []) == []


def test_hypotheses_by_risk():
    rows = [[hypothesis("a z", -0.1), hypothesis("b c", -2.0), hypothesis("b d", -2.1)]]
    for sampled, first in ((True, "b c"), (False, "a z")):
        ((best, *_),) = reranking.by_risk(
            rows, ["s"], "m:overlap", overlap, sampled=sampled
        )
        assert best.text == first and 0 < best.utility < 1
