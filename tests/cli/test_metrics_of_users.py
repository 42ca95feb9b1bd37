"""`--metric`, `--rerank`, `--mbr-metric` and `--robustness` of the commands."""

import json
import sys
import types

import pytest

from keras_transformer import evaluation
from keras_transformer.data.text_noise import noised

pytestmark = pytest.mark.no_backend

LINES = ["a man", "Two dogs sleep"]


def shorter(sources, hypotheses, references):
    """A judge that likes short translations."""
    return [-float(len(text)) for text in hypotheses]


def equal(sources, hypotheses, references):
    assert references is not None
    return [float(h == r) for h, r in zip(hypotheses, references, strict=True)]


@pytest.fixture(autouse=True)
def named(monkeypatch):
    module = types.ModuleType("named_metrics")
    module.shorter, module.equal = shorter, equal
    monkeypatch.setitem(sys.modules, module.__name__, module)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / name for name in ("source", "reference")]
    for path, lines in zip(paths, (LINES, ["A MAN", "ZWEI HUNDE"]), strict=True):
        path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return ["--source", paths[0], "--reference", paths[1]]


def test_evaluate_by_a_metric_of_ones_own(model, invoke, files):
    options = ["--metric", "named_metrics:equal"]
    found = invoke("evaluate", model, *files, *options).stdout.splitlines()
    assert len(found) == 4
    assert found[3] == "equal = 0.5000 (named_metrics:equal)"
    rows = json.loads(invoke("evaluate", model, *files, *options, "--json").stdout)
    assert rows[3] == {
        "name": "equal",
        "score": 0.5,
        "signature": "named_metrics:equal",
        "interval": None,
    }
    result = invoke("evaluate", model, *files, *files[2:], *options)
    assert result.exit_code == 2
    assert "takes one reference of each line" in result.stderr


def test_evaluate_on_noised_text_in_one_table(model, invoke, files, tmp_path):
    """The fake model upper-cases: of a case it knows nothing, of typos it does."""
    options = ["--robustness", "--metric", "named_metrics:equal"]
    output = ["--output", tmp_path / "written"]
    found = invoke("evaluate", model, *files, *options, *output).stdout.splitlines()
    assert found[0].split() == ["source", "BLEU", "chrF2", "TER", "equal"]
    rows = {line.split()[0]: line.split()[1:] for line in found[1:6]}
    assert list(rows) == ["plain", "upper", "title", "lower", "typos"]
    assert len({tuple(rows[name]) for name in ("plain", "upper", "lower")}) == 1
    upper = [line.upper() for line in noised(LINES)["typos"]]
    scores = evaluation.evaluate(upper, ["A MAN", "ZWEI HUNDE"])
    assert rows["typos"][:3] == [f"{score.score:.2f}" for score in scores]
    assert found[6].startswith("BLEU: nrefs:1|") and len(found) == 10
    assert (tmp_path / "written").read_text() == "A MAN\nTWO DOGS SLEEP\n"
    rows = json.loads(invoke("evaluate", model, *files, *options, "--json").stdout)
    sources = ["plain", "upper", "title", "lower", "typos"]
    assert [row["source"] for row in rows] == [s for s in sources for _ in range(4)]
    shown = [
        f"{row['score']:.2f}"
        for row in rows
        if row["source"] == "typos" and row["name"] != "equal"
    ]
    assert shown == [f"{score.score:.2f}" for score in scores]


def test_score_by_a_judge_without_references(model, invoke, files):
    source, target = files[1], files[3]
    arguments = ["score", model, "--source", source, "--target", target]
    options = ["--metric", "named_metrics:shorter"]
    found = invoke(*arguments, *options).stdout.splitlines()
    assert [line.split("\t")[1] for line in found] == ["-5.000000", "-10.000000"]
    plain = invoke(*arguments).stdout.splitlines()
    assert plain == [line.split("\t")[0] for line in found]
    lines = invoke(*arguments, *options, "--format", "jsonl").stdout.splitlines()
    assert json.loads(lines[0])["metrics"] == {"named_metrics:shorter": -5.0}


def test_translate_chooses_by_a_metric(model, invoke):
    """The fake model's n-th hypothesis ends in n exclamation marks."""
    rerank = ["--rerank", "named_metrics:longer"]

    def longer(sources, hypotheses, references):
        assert references is None and set(sources) == {"a", "b"}
        return list(map(len, hypotheses))

    sys.modules["named_metrics"].longer = longer
    found = invoke("translate", model, *rerank, input="a\nb\n").stdout
    assert found == "A!!!\nB!!!\n"  # of as many as the beam size
    options = [*rerank, "--top-beams", 2, "--mbr-candidates", 6]
    found = invoke("translate", model, *options, input="a\nb\n").stdout.splitlines()
    assert found[:2] == ["1\t1\t6.000000\tA!!!!!", "1\t2\t5.000000\tA!!!!"]
    options = [*rerank, "--top-beams", 6, "--mbr-candidates", 6]
    found = invoke("translate", model, *options, input="a\nb\n").stdout.splitlines()
    assert len(found) == 12  # the beam is as wide
    options = ["--mbr-metric", "named_metrics:equal", "--format", "jsonl"]
    (line,) = invoke("translate", model, *options, input="a\n").stdout.splitlines()
    (best,) = json.loads(line)["hypotheses"]
    assert best["text"] == "A" and 0.5 < best["utility"] < 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rerank", "m:f", "--mbr", "chrf"], "choose in different ways"),
        (["--rerank", "m:f", "--mbr-metric", "m:f"], "choose in different ways"),
        (
            ["--rerank", "named_metrics:equal", "--beam-size", 1],
            "--rerank has one candidate to choose from",
        ),
        (
            ["--rerank", "named_metrics:equal", "--top-beams=4", "--mbr-candidates=2"],
            "--rerank chooses --top-beams 4 from --mbr-candidates 2; give more",
        ),
    ],
)
def test_flags_that_do_not_go_together(model, invoke, options, message):
    result = invoke("translate", model, *options, input="a\n")
    assert result.exit_code == 2 and message in result.stderr
