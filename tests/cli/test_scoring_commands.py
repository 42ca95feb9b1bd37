"""Intervals of `evaluate`, and `compare`, which needs no model."""

import gzip
import json

import fake_program
import pytest

from keras_transformer import evaluation
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

REFERENCE = ["EIN MANN SCHLÄFT AUF DER BANK .", "ZWEI HUNDE SPIELEN IM SCHNEE ."] * 5
SOURCE = ["ein mann schläft auf der bank .", "zwei katzen spielen im schnee ."] * 5
OTHER = ["EIN MANN RUHT AUF DER BANK .", "ZWEI HUNDE SPIELEN ."] * 5


@pytest.fixture
def files(tmp_path):
    """Paths of the three texts; the last one is gzipped."""
    paths = [tmp_path / name for name in ("reference", "source", "other.gz")]
    for path, lines in zip(paths, (REFERENCE, SOURCE, OTHER), strict=True):
        data = "".join(f"{line}\n" for line in lines).encode()
        path.write_bytes(gzip.compress(data) if path.suffix else data)
    return paths


def test_evaluate_gives_intervals(model, invoke, files):
    arguments = ["evaluate", model, "--source", files[1], "--reference", files[0]]
    arguments += ["--confidence", 30]
    expected = evaluation.evaluate(
        [line.upper() for line in SOURCE], REFERENCE, confidence=30
    )
    assert all(score.interval > 0 for score in expected)
    assert invoke(*arguments).stdout.splitlines() == list(map(str, expected))
    rows = json.loads(invoke(*arguments, "--json").stdout)
    assert [row["interval"] for row in rows] == [score.interval for score in expected]
    without = json.loads(invoke(*arguments[:-2], "--json").stdout)
    assert [row["interval"] for row in without] == [None] * 3


def test_evaluate_refuses_what_is_no_sample_size_before_the_work(model, invoke, files):
    arguments = ["--source", files[1], "--reference", files[0], "--confidence", 1]
    with pytest.raises(InputError, match="confidence 1 is not"):
        invoke("evaluate", model / "missing", *arguments)


def test_compare_prints_each_file_and_how_likely_its_difference_is(invoke, files):
    reference, source, other = files
    options = ["--lowercase", "--confidence", 30]
    result = invoke("compare", source, other, "--reference", reference, *options)
    scores = evaluation.evaluate(SOURCE, REFERENCE, lowercase=True, confidence=30)
    compared = evaluation.compare(
        OTHER, SOURCE, REFERENCE, lowercase=True, confidence=30
    )
    lines = [f"{source}: {score}" for score in scores]
    lines += [f"{other}: {row.score}, p = {row.p_value:.4f}" for row in compared]
    assert result.stdout.splitlines() == lines


def test_compare_as_json(invoke, files):
    reference, source, other = files
    files = [source, other, source]
    rows = json.loads(
        invoke("compare", *files, "--reference", reference, "--json").stdout
    )
    assert [row["file"] for row in rows] == [str(path) for path in files for _ in "123"]
    assert [row["name"] for row in rows] == ["BLEU", "chrF2", "TER"] * 3
    assert [row["p_value"] for row in rows[:3]] == [None] * 3
    assert all(0 < row["p_value"] < 1 for row in rows[3:6])
    assert [row["p_value"] for row in rows[6:]] == [1, 1, 1]
    assert all("|bs:1000|seed:12345|" in row["signature"] for row in rows)


def test_compare_scores_one_file_alone(invoke, files):
    arguments = ["--reference", files[0], "--tokenize", "none", "--confidence", 0]
    result = invoke("compare", files[1], *arguments)
    bleu = evaluation.evaluate(SOURCE, REFERENCE, tokenize="none")[0]
    assert result.stdout.startswith(f"{files[1]}: {bleu}\n")
    assert "p = " not in result.stdout


def test_compare_refuses_files_that_do_not_match(invoke, files, tmp_path):
    short = tmp_path / "short"
    short.write_text("one line\n")
    with pytest.raises(InputError, match=r"source has 10 lines but .*short has 1"):
        invoke("compare", files[1], short, "--reference", files[0])


def test_compare_loads_no_backend(run_python, files):
    program = (
        "import sys\n"
        "from keras_transformer.cli.main import application\n"
        f"application()(['compare', {str(files[1])!r}, '--reference', "
        f"{str(files[0])!r}], standalone_mode=False)\n"
        "assert not {'keras', 'tensorflow', 'jax', 'torch'} & sys.modules.keys()\n"
    )
    assert "BLEU = " in run_python(program)


# === Several references ===


def test_several_references_count_together(model, invoke, files, tmp_path):
    reference, source, other = files
    second = tmp_path / "second"
    second.write_text("".join(f"{line}\n" for line in OTHER), encoding="utf-8")
    references = ["--reference", reference, "--reference", second]
    options = {"confidence": 20, "chrf_word_order": 2}
    flags = ["--confidence", 20, "--chrf-word-order", 2]
    answers = [REFERENCE, OTHER]
    upper = [line.upper() for line in SOURCE]
    expected = list(map(str, evaluation.evaluate(upper, answers, **options)))
    found = invoke("evaluate", model, "--source", source, *references, *flags)
    assert found.stdout.splitlines() == expected
    assert "nrefs:2" in expected[0] and expected[1].startswith("chrF2++ = ")
    compared = invoke("compare", source, other, *references, *flags).stdout.splitlines()
    scores = evaluation.evaluate(SOURCE, answers, **options)
    rows = evaluation.compare(OTHER, SOURCE, answers, **options)
    assert compared == [f"{source}: {score}" for score in scores] + [
        f"{other}: {row.score}, p = {row.p_value:.4f}" for row in rows
    ]
    second.write_text("one line\n")
    with pytest.raises(InputError, match=r"source has 10 lines but .*second has 1"):
        invoke("compare", source, *references)


# === score ===


@pytest.fixture
def pairs(tmp_path):
    """Files of 600 pairs, the 521st of which the fake model refuses."""
    source, target = tmp_path / "s", tmp_path / "t"
    source.write_text("x\n" * 600)
    target.write_text("a\n" * 520 + "bad\n" + "b\n" * 79)
    return ["--source", source, "--target", target]


def test_score_names_a_bad_line_by_its_number_in_the_file(model, invoke, pairs):
    with pytest.raises(InputError, match="line 521 is bad"):
        invoke("score", model, *pairs)


def test_score_as_json_lines_with_several_models(model, invoke, tmp_path):
    (tmp_path / "s").write_text("x\n\u2028\n", encoding="utf-8")
    (tmp_path / "t").write_text("ä\n\n", encoding="utf-8")
    files = ["--source", tmp_path / "s", "--target", tmp_path / "t"]
    result = invoke("score", model, *files, "--format", "jsonl", "--ensemble", model)
    rows = [json.loads(line) for line in result.stdout.strip().split("\n")]
    assert rows == [
        {
            "source": "x",
            "target": "ä",
            "log_probability": -1.0,
            "tokens": ["ä", "</s>"],
            "token_scores": [-1.0, 0.0],
        },
        {
            "source": "\u2028",
            "target": "",
            "log_probability": 0.0,
            "tokens": ["</s>"],
            "token_scores": [0.0],
        },
    ]
    assert fake_program.Translator.last.others == (model,)
