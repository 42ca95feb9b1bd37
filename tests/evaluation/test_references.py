"""Scores against several right answers, and chrF++."""

import re

import numpy as np
import pytest
import sacrebleu

from keras_transformer.errors import InputError
from keras_transformer.evaluation import compare
from keras_transformer.evaluation import evaluate

pytestmark = pytest.mark.no_backend


def test_several_references_are_those_of_sacrebleu():
    hypotheses = ["The cat sat on the mat.", "I know.", "It rains today a lot."]
    first = ["The cat sat on the mat.", "Yes.", "It rains a lot today."]
    second = ["A cat was on the mat.", "I see.", "Today it rains a lot."]
    for references, figure, count in [
        (first, 62.63, 1),
        (second, 32.63, 1),
        ([first], 62.63, 1),
        ([first, second], 68.68, 2),
        (np.array([second, first]), 68.68, 2),
    ]:
        (bleu,) = evaluate(hypotheses, references, metrics=["bleu"])
        assert round(bleu.score, 2) == figure
        assert f"nrefs:{count}|" in bleu.signature
    metrics = (sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER())
    for found, metric in zip(
        evaluate(hypotheses, [first, second]), metrics, strict=True
    ):
        assert found.score == metric.corpus_score(hypotheses, [first, second]).score
    (row,) = compare(hypotheses, hypotheses, [first, second], metrics=["bleu"])
    assert round(row.score.score, 2) == 68.68
    assert row.score.signature.startswith("nrefs:2|")


def test_chrf_plus_plus_counts_words_too():
    hypotheses = ["Ein Mann schläft .", "Zwei Hunde ."]
    references = ["Ein Mann ruht .", "Zwei Hunde spielen ."]
    (chrf,) = evaluate(hypotheses, references, metrics=["chrf"], chrf_word_order=2)
    expected = sacrebleu.CHRF(word_order=2).corpus_score(hypotheses, [references])
    assert (chrf.name, chrf.score) == ("chrF2++", expected.score)
    assert "|nw:2|" in chrf.signature
    with pytest.raises(InputError, match="chrf_word_order -1 is below 0"):
        evaluate(hypotheses, references, chrf_word_order=-1)


@pytest.mark.parametrize(
    ("references", "message"),
    [
        ([["a"], ["a", "b"]], "1 hypotheses do not pair with 2 references[1]"),
        ([["a"], [None]], "references[1][0] is NoneType"),
        ([["a"], "a"], "references[0] is list"),
    ],
)
def test_each_of_several_references_is_checked(references, message):
    with pytest.raises(InputError, match=re.escape(message)):
        evaluate(["a"], references)
