"""MBR against its definition, with sacreBLEU's own scores."""

import numpy as np
import pytest
import sacrebleu

from keras_transformer.translation import minimum_bayes_risk

pytestmark = pytest.mark.no_backend

TEXTS = ["a man sleeps", "a man is asleep", "a man sleeps", "the man sleeps", "", "dog"]
LOGS = [-1.0, -2.0, -1.0, -1.5, -9.0, -3.0]
SCORES = {
    "chrf": lambda text, other: sacrebleu.sentence_chrf(text, [other]).score,
    "bleu": lambda text, other: sacrebleu.sentence_bleu(text, [other]).score,
}


@pytest.mark.parametrize("utility", minimum_bayes_risk.UTILITIES)
@pytest.mark.parametrize("sampled", [True, False])
def test_is_the_mean_likeness_to_all(utility, sampled):
    weights = np.ones(6) if sampled else np.exp(LOGS)
    expected = [
        sum(
            weight * SCORES[utility](text, other)
            for weight, other in zip(weights, TEXTS, strict=True)
        )
        / sum(weights)
        for text in TEXTS
    ]
    found = minimum_bayes_risk.ranked(TEXTS, LOGS, utility, sampled=sampled)
    places = [place for place, _ in found]
    assert sorted(places) == list(range(6))
    np.testing.assert_allclose([u for _, u in found], np.array(expected)[places])
    assert [u for _, u in found] == sorted((u for _, u in found), reverse=True)


def test_the_more_probable_of_equals_is_the_better():
    found = minimum_bayes_risk.ranked(
        ["x", "y", "z"], [-3, -1, -2], "chrf", sampled=True
    )
    assert [place for place, _ in found] == [1, 2, 0]
    found = minimum_bayes_risk.ranked(["x", "x"], [-1.0, -1.0], "bleu", sampled=True)
    assert [place for place, _ in found] == [0, 1]


def test_very_improbable_candidates_are_weighed_too():
    found = minimum_bayes_risk.ranked(
        ["a b", "a c"], [-2000.0, -2001.0], "chrf", sampled=False
    )
    assert found[0][0] == 0 and np.isfinite(found[0][1])
