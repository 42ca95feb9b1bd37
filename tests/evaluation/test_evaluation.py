"""Scores: published figures, edges, signatures."""

import json
import re
import sys

import numpy as np
import pytest
import sacrebleu

from keras_transformer.errors import InputError
from keras_transformer.evaluation import METRICS
from keras_transformer.evaluation import TOKENIZATIONS
from keras_transformer.evaluation import Score
from keras_transformer.evaluation import compare
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


# === Two systems ===

GOOD = ["Ein Mann schläft auf der Bank.", *REFERENCES[1:]] * 7
POOR = ["Ein Mann schläft.", "Zwei Katzen spielen im Schnee.", REFERENCES[2]] * 7


def test_paired_bootstrap_is_what_koehn_describes():
    samples, references = 40, REFERENCES * 7
    (found,) = compare(GOOD, POOR, references, metrics=["chrf"], confidence=samples)
    rng = np.random.default_rng(12345)  # sacreBLEU's
    scores = []
    for rows in rng.choice(21, size=(samples, 21)):
        pair = [
            evaluate(
                [t[i] for i in rows], [references[i] for i in rows], metrics=["chrf"]
            )
            for t in (GOOD, POOR)
        ]
        scores.append([score.score for (score,) in pair])
    differences = np.abs(np.diff(scores).ravel())
    observed = found.score.score - found.baseline.score
    extreme = np.sum(differences - differences.mean() > observed)
    assert found.p_value == pytest.approx((extreme + 1) / (samples + 1))
    for index, side in enumerate((found.score, found.baseline)):
        ordered = np.sort([pair[index] for pair in scores])
        assert side.interval == pytest.approx((ordered[-2] - ordered[1]) / 2, abs=1e-4)


def test_both_sides_are_scored_as_if_alone():
    references = REFERENCES * 7
    found = compare(GOOD, POOR, references, lowercase=True, confidence=50)
    for side, system in (("score", GOOD), ("baseline", POOR)):
        alone = evaluate(system, references, lowercase=True, confidence=50)
        for one, other in zip(
            [getattr(row, side) for row in found], alone, strict=True
        ):
            assert (one.name, one.signature) == (other.name, other.signature)
            assert one.score == pytest.approx(other.score)
            assert one.interval == pytest.approx(other.interval, abs=1e-5)


def test_a_comparison_is_the_same_again_and_the_other_way_round():
    references = REFERENCES * 7
    found = compare(GOOD, POOR, references, confidence=100)
    assert compare(GOOD, POOR, references, confidence=100) == found
    for row, turned in zip(
        found, compare(POOR, GOOD, references, confidence=100), strict=True
    ):
        assert turned.p_value == row.p_value
        assert (turned.score, turned.baseline) == (row.baseline, row.score)


def test_equal_systems_do_not_differ():
    for found in compare(POOR, POOR, REFERENCES * 7, confidence=100):
        assert found.p_value == 1
        assert found.score == found.baseline


def test_a_clear_difference_is_significant_and_a_small_one_is_not():
    references = REFERENCES * 40
    poor = ["Ein Mann schläft auf dem Sofa.", *REFERENCES[1:]] * 40
    (clear,) = compare(references, poor, references, metrics=["bleu"])
    assert clear.p_value == pytest.approx(1 / 1001)
    almost = [*references[:-1], "Eine Frau liest das Buch."]
    (small,) = compare(references, almost, references, metrics=["bleu"])
    assert small.p_value > 0.1


def test_a_comparison_needs_three_texts_of_one_length():
    with pytest.raises(InputError, match="2 hypotheses do not pair with 1 baseline"):
        compare(["a", "b"], ["a"], ["a", "b"])
    with pytest.raises(InputError, match="confidence 0 is not"):
        compare(["a"], ["a"], ["a"], confidence=0)


# === Moses ===


@pytest.mark.parametrize("language", ["en", "de", "fr"])
def test_lowercase_moses_is_the_published_text_of_multi30k(shared_data, language):
    pytest.importorskip("sacremoses")
    raw, published = (
        (shared_data / "multi30k" / name).read_text(encoding="utf-8").split("\n")[:-1]
        for name in (
            f"raw/test_2016_flickr.{language}",
            f"tok/test_2016_flickr.lc.norm.tok.{language}",
        )
    )
    seen = []

    class Seeing(sacrebleu.BLEU):
        def _preprocess_segment(self, line):
            seen.append(super()._preprocess_segment(line))
            return seen[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sacrebleu, "BLEU", Seeing)
        (bleu,) = evaluate(
            raw, raw, tokenize=f"moses-{language}", lowercase=True, metrics=["bleu"]
        )
    assert bleu.score == pytest.approx(100)
    assert len(raw) == len(published) == 1000
    assert set(seen) == set(published)


def test_moses_equals_scoring_its_tokens(caplog):
    pytest.importorskip("sacremoses")
    hypotheses = ["Er kommt z.B. „heute“.", "Ja – nein!"] * 60
    references = ["Er kommt heute.", "Ja, ja - nein!"] * 60
    options = {"metrics": ["bleu"], "confidence": 20}
    (moses,) = evaluate(
        hypotheses, references, tokenize="moses-de", lowercase=True, **options
    )
    (tokens,) = evaluate(
        ["er kommt z.B. &quot; heute &quot; .", "ja - nein !"] * 60,
        ["er kommt heute .", "ja , ja - nein !"] * 60,
        tokenize="none",
        **options,
    )
    assert moses.score == pytest.approx(tokens.score)
    assert "|case:lc|" in moses.signature
    assert re.search(r"\|tok:moses-de-\d+\.\d+", moses.signature)
    assert not caplog.records


def test_moses_knows_its_languages():
    pytest.importorskip("sacremoses")
    with pytest.raises(InputError, match="no rules for the language 'xx'; use one of"):
        evaluate(["a"], ["a"], tokenize="moses-xx")


def test_moses_that_is_not_installed_is_bad_input(monkeypatch):
    monkeypatch.setitem(sys.modules, "sacremoses", None)
    with pytest.raises(InputError, match=r"'moses-de' is not installed .*sacremoses"):
        evaluate(["a"], ["a"], tokenize="moses-de")


def test_columns_of_other_libraries_are_scored():
    array = np.array(REFERENCES)
    assert scores(array) == scores(REFERENCES)
    (comparison,) = compare(array, array, array, metrics=["bleu"], confidence=10)
    assert comparison.p_value == 1.0


def test_an_empty_hypothesis_is_scored():
    assert 0 < scores([*REFERENCES[:2], ""])["BLEU"].score < 100


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        (([], []), {}, "nothing to score; give"),
        (
            (["a", "b"], ["a"]),
            {},
            "2 hypotheses do not pair with 1 references; give one",
        ),
        (("a", ["a"]), {}, "must be a list of strings, got str"),
        ((["a"], [None]), {}, "references[0] is NoneType"),
        ((["a"], ["a"]), {"tokenize": "14a"}, "'14a' for BLEU; use one of"),
        ((["a"], ["a"]), {"metrics": ["meteor"]}, "'meteor'; use one of bleu, chrf"),
        ((["a"], ["a"]), {"metrics": "bleu"}, "a list of names, got 'bleu'"),
        ((["a"], ["a"]), {"confidence": 1}, "confidence 1 is not"),
        ((["a"], ["a"]), {"confidence": 0.95}, "confidence 0.95 is not a number of"),
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


def test_an_interval_where_some_samples_share_no_letter():
    # sacreBLEU's own interval fails there: it mixes two kinds of numbers.
    options = {"metrics": ["chrf"], "confidence": 50}
    (some,) = evaluate(["q", "abcdefg"], ["xx yy zz", "abcdefg"], **options)
    assert 0 < some.interval <= 50
    (none,) = evaluate(["q", "q"], ["xx yy zz", "xx yy zz"], **options)
    assert none.interval == 0
