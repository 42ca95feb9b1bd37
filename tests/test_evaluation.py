"""Scores: published figures, edges, signatures."""

import json
import re

import pytest
import sacrebleu

from keras_transformer.errors import InputError
from keras_transformer.evaluation import METRICS
from keras_transformer.evaluation import TOKENIZATIONS
from keras_transformer.evaluation import Score
from keras_transformer.evaluation import evaluate

pytestmark = pytest.mark.no_backend

REFERENCES = [
    "Ein Mann schläft auf einer Bank.",
    "Zwei Hunde spielen im Schnee.",
    "Eine Frau liest ein Buch.",
]


def scores(hypotheses, references=REFERENCES, **options):
    return {score.name: score for score in evaluate(hypotheses, references, **options)}


def test_published_figures_are_reproduced(shared_data):
    folder = shared_data / "vectors" / "bleu_triples"
    if not (folder / "scores.json").exists():
        pytest.skip("needs shared/data/vectors/bleu_triples")
    rows = json.loads((folder / "scores.json").read_text(encoding="utf-8"))
    assert len(rows) == 7
    for row in rows:
        texts = [
            (folder / row[side]).read_text(encoding="utf-8").split("\n")[:-1]
            for side in ("hyp_file", "ref_file")
        ]
        assert [len(text) for text in texts] == [row["lines"]] * 2
        (bleu,) = evaluate(*texts, metrics=["bleu"])
        assert f"{bleu.score:.1f}" == f"{row['published_bleu']:.1f}", row["hyp_file"]


def test_identical_text_is_perfect():
    perfect = scores(REFERENCES)
    assert perfect["BLEU"].score == pytest.approx(100)
    assert perfect["chrF2"].score == pytest.approx(100)
    assert perfect["TER"].score == 0


def test_text_without_a_common_word_or_letter_is_worthless():
    worthless = scores(["xyxy yxyx"] * 3, ["abab baba"] * 3)
    assert worthless["BLEU"].score == worthless["chrF2"].score == 0
    assert worthless["TER"].score == 100


def test_ter_counts_edits_per_reference_word():
    (ter,) = evaluate(["a b c x"], ["a b c d"], metrics=["ter"])
    assert ter.score == pytest.approx(25)


def test_metrics_come_in_the_order_asked_for():
    names = [score.name for score in evaluate(REFERENCES, REFERENCES, metrics=METRICS)]
    assert names == ["BLEU", "chrF2", "TER"]
    assert [*scores(REFERENCES, metrics=["ter", "bleu"])] == ["TER", "BLEU"]


def test_case_counts_unless_lowercase():
    upper = [text.upper() for text in REFERENCES]
    assert scores(upper)["BLEU"].score < 50
    ignored = scores(upper, lowercase=True)
    assert ignored["BLEU"].score == pytest.approx(100)
    assert ignored["chrF2"].score == pytest.approx(100)
    assert "|case:lc|" in ignored["BLEU"].signature
    assert "|case:mixed|" in scores(upper)["BLEU"].signature


def test_tokenize_none_keeps_the_words_as_they_are(caplog):
    hypotheses = [text.replace(".", " .") for text in REFERENCES] * 100
    references = REFERENCES * 100
    assert scores(hypotheses, references)["BLEU"].score == pytest.approx(100)
    caplog.clear()
    kept = scores(hypotheses, references, tokenize="none")["BLEU"]
    assert kept.score < 80
    assert "|tok:none|" in kept.signature
    assert not caplog.records


def test_line_of_a_score_ends_with_its_signature():
    bleu = scores(REFERENCES)["BLEU"]
    signature = (
        f"nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:{sacrebleu.__version__}"
    )
    assert str(bleu) == f"BLEU = 100.00 ({signature})"
    assert str(Score("TER", 12.345, "s", 0.678)) == "TER = 12.35 ± 0.68 (s)"


def test_confidence_gives_an_interval_and_says_so_in_the_signature():
    hypotheses = ["Ein Mann schläft.", *REFERENCES[1:]]
    for score in evaluate(hypotheses, REFERENCES, confidence=100):
        assert 0 < score.interval < 100
        assert "|bs:100|seed:" in score.signature
    for score in evaluate(hypotheses, REFERENCES):
        assert score.interval is None
        assert "bs:" not in score.signature


def test_interval_of_a_perfect_score_is_zero():
    perfect = evaluate(REFERENCES, REFERENCES, confidence=100)
    assert [score.interval for score in perfect] == [0, 0, 0]


def test_an_empty_hypothesis_is_scored():
    assert 0 < scores([*REFERENCES[:2], ""])["BLEU"].score < 100


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "nothing to score; give"),
        ((["a", "b"], ["a"]), {}, "2 hypotheses but 1 references; give one reference"),
        (("a", ["a"]), {}, "put it into a list"),
        ((["a"], ["a"]), {"tokenize": "14a"}, "'14a' for BLEU; use one of"),
        ((["a"], ["a"]), {"metrics": ["meteor"]}, "'meteor'; use one of bleu, chrf"),
        ((["a"], ["a"]), {"confidence": 1}, "confidence 1 is not"),
        ((["a"], ["a"]), {"confidence": -5}, "confidence -5 is not"),
    ],
)
def test_bad_input_is_one_sentence(arguments, options, message):
    with pytest.raises(InputError, match=re.escape(message)) as caught:
        evaluate(*arguments, **options)
    assert "\n" not in str(caught.value)


def test_a_tokenization_that_is_not_installed_is_bad_input(monkeypatch):
    assert "ja-mecab" in TOKENIZATIONS

    def missing(**options):
        raise RuntimeError("Japanese tokenization requires\nextra dependencies")

    monkeypatch.setattr(sacrebleu, "BLEU", missing)
    with pytest.raises(InputError, match=r"requires extra dependencies\); install"):
        evaluate(["a"], ["a"], tokenize="ja-mecab")
