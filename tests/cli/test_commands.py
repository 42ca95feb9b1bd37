"""What `train`, `score`, `evaluate`, `average` and `info` give to those who work."""

import json

import fake_program
import pytest
import sacrebleu

from keras_transformer.errors import InputError
from keras_transformer.training import averaging
from keras_transformer.training import run

pytestmark = pytest.mark.no_backend


@pytest.fixture
def write(tmp_path):
    def write_file(name, text):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write_file


# === score, evaluate, info ===


def test_score_prints_a_number_a_line_in_order(model, invoke, write):
    source, target = write("source", "x\n" * 1200), write("target", "a\nbc\nd\n" * 400)
    result = invoke("score", model, "--source", source, "--target", target)
    assert result.stdout.split() == ["-1.000000", "-2.000000", "-1.000000"] * 400
    assert fake_program.Translator.last.calls[0][1] == ("x", "bc")
    assert len(fake_program.Translator.last.calls) == 2  # pieces of the file


def test_score_refuses_files_that_do_not_match(model, invoke, write):
    source, target = write("source", "x\n"), write("target", "a\nb\n")
    with pytest.raises(InputError, match=r"source has 1 lines but .*target has 2"):
        invoke("score", model, "--source", source, "--target", target)


SOURCE = "ein mann schläft auf dem sofa .\nzwei hunde .\n"
REFERENCE = "EIN MANN SCHLÄFT AUF DEM SOFA .\nzwei Katzen .\n"


def test_evaluate_prints_the_scores_of_sacrebleu(model, invoke, write):
    source, reference = write("source", SOURCE), write("reference", REFERENCE)
    result = invoke("evaluate", model, "--source", source, "--reference", reference)
    names = [line.split(" = ")[0] for line in result.stdout.splitlines()]
    assert names == ["BLEU", "chrF2", "TER"]
    bleu = sacrebleu.corpus_bleu(SOURCE.upper().splitlines(), [REFERENCE.splitlines()])
    assert result.stdout.startswith(f"BLEU = {bleu.score:.2f} (nrefs:1|case:mixed")


def test_evaluate_obeys_its_options(model, invoke, write, tmp_path):
    source, reference = write("source", SOURCE), write("reference", REFERENCE)
    files = ["--source", source, "--reference", reference, "--output", tmp_path / "out"]
    options = ["--tokenize", "char", "--lowercase", "--json", "--beam-size", 2]
    options += ["--mbr", "chrf", "--sampling", "--seed", 3]
    result = invoke("evaluate", model, *files, *options)
    bleu, chrf, ter = json.loads(result.stdout)
    assert [score["name"] for score in (bleu, chrf, ter)] == ["BLEU", "chrF2", "TER"]
    assert "case:lc" in bleu["signature"] and "tok:char" in bleu["signature"]
    assert fake_program.Translator.last.options == {
        "beam_size": 2,
        "top_beams": 1,
        "sampling": True,
        "seed": 3,
        "mbr": "chrf",
    }
    assert (tmp_path / "out").read_text(encoding="utf-8") == SOURCE.upper()


def test_evaluate_tells_of_a_cut_line_in_one(model, invoke, write):
    files = [
        "--source",
        write("source", "a\nlong\n"),
        "--reference",
        write("b", "A\nB\n"),
    ]
    result = invoke("evaluate", model, *files, "--long-lines", "truncate")
    assert result.stderr.splitlines()[1:] == ["warning: line 2 is long"]


def test_evaluate_refuses_an_unknown_tokenization_before_the_work(model, invoke, write):
    files = ["--source", write("source", "a\n"), "--reference", write("b", "a\n")]
    with pytest.raises(InputError, match="unknown tokenization '13b'"):
        invoke("evaluate", model / "missing", *files, "--tokenize", "13b")


def test_info_prints_facts(model, invoke):
    assert invoke("info", model).stdout == "weights: 7\n"


# === train, average ===


@pytest.fixture
def trained(model, monkeypatch):
    """The configs with which training was started, instead of training."""
    configs = []
    monkeypatch.setattr(run, "train", configs.append)
    return configs


def test_train_without_arguments_takes_the_phrasebook(trained, invoke):
    result = invoke("train")
    assert (result.exit_code, result.stdout) == (0, "")
    assert trained[0].data.phrasebook == "en-de"


def test_train_reads_a_config_and_overrides(trained, invoke, write):
    path = write("small.yaml", "data: {train: [{tsv: a.tsv}]}")
    invoke("train", path, "--set", "training.steps=7", "--set", "training.seed=2")
    (config,) = trained
    assert config.data.train[0].tsv == (path.with_name("a.tsv"),)
    assert (config.training.steps, config.training.seed) == (7, 2)


def test_several_keys_may_follow_one_set(trained, invoke, write):
    path = write("small.yaml", "data: {train: [{tsv: a.tsv}]}")
    invoke("train", path, "--set", "training.steps=7", "training.seed=2")
    invoke("train", "--set", "training.steps=7", "training.seed=2")
    steps_and_seeds = [(c.training.steps, c.training.seed) for c in trained]
    assert steps_and_seeds == [(7, 2), (7, 2)]
    assert [config.data.phrasebook for config in trained] == [None, "en-de"]


def test_a_config_may_have_an_equals_sign_in_its_name(trained, invoke, write):
    invoke("train", write("a=b.yaml", "data: {train: [{tsv: a.tsv}]}"))
    assert trained[0].data.train[0].tsv


def test_train_refuses_a_bad_config(trained, invoke, write):
    with pytest.raises(InputError, match=r"bad\.yaml: unknown key data\.trian"):
        invoke("train", write("bad.yaml", "data: {trian: []}"))
    assert not trained


@pytest.mark.parametrize("number", [2, 15])
def test_a_stopped_training_says_how_to_go_on(number, model, invoke, monkeypatch):
    def stop(config):
        raise run.Interrupted("run it again to go on", number)

    monkeypatch.setattr(run, "train", stop)
    result = invoke("train")
    assert result.exit_code == 128 + number
    assert result.stderr.splitlines()[1:] == ["run it again to go on"]


def test_average_passes_its_arguments_on(model, invoke, monkeypatch, tmp_path):
    calls = []

    def average(*call):
        calls.append(call)
        return [100, 200]

    monkeypatch.setattr(averaging, "average", average)
    result = invoke("average", model, "--output", "new")
    assert result.stdout == "new: mean of the checkpoints at steps 100, 200\n"
    invoke("average", model, "--output", "new", "--last", 2)
    invoke("average", model, "--output", "new", "--best", 3)
    result = invoke("average", model, "--output", "new", "--best", 3, "--last", 2)
    assert result.exit_code == 2 and "--last or --best" in result.stderr
    found = [(str(output), last, best) for _, last, output, best in calls]
    assert found == [("new", 5, None), ("new", 2, None), ("new", 5, 3)]
    with pytest.raises(InputError, match=r"no folder .*missing; give a run folder"):
        invoke("average", tmp_path / "missing", "--output", "new")


# === compile ===


@pytest.mark.parametrize(
    "backend, variables, folder",
    [
        ("jax", {"JAX_COMPILATION_CACHE_DIR": "kept"}, "kept"),
        (
            "tensorflow",
            {"TF_XLA_FLAGS": "--x=1 --tf_xla_persistent_cache_directory=a"},
            "a",
        ),
        ("tensorflow", {"TF_XLA_FLAGS": "--x=1"}, None),
        ("torch", {}, None),
    ],
)
def test_compile_says_what_is_kept_and_where(
    model, invoke, monkeypatch, backend, variables, folder
):
    monkeypatch.setattr("keras_transformer.cli.backend.activate", lambda imports: None)
    for name, value in {"KERAS_BACKEND": backend, **variables}.items():
        monkeypatch.setenv(name, value)
    result = invoke("compile", model, "--batch-size", 8, "--beam-size", 3)
    lines = result.stdout.splitlines()
    if folder is None:
        assert lines == [
            f"{backend} keeps no programs, so nothing was compiled; see docs/speed.md"
        ]
        return
    starts = ["8 lines of up to 128 tokens: 0", "a line of up to 128 tokens: 0"]
    assert [line.partition(".")[0] for line in lines] == [*starts, "2 programs in 0"]
    assert lines[-1].endswith(f" s, kept in {folder}")
    assert fake_program.Translator.last.options == {"beam_size": 3}
