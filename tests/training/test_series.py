"""Several runs of one config: seeds, stages, how they go on, and their table."""

import contextlib
import json
import shutil
from pathlib import Path

import pytest
import yaml
from small_run import CONFIG
from small_run import assert_equal
from small_run import terminating_at
from small_run import weights_of

from keras_transformer.data.corpus import read_lines
from keras_transformer.errors import InputError
from keras_transformer.files.digest import sha256_of_json
from keras_transformer.training import load_config
from keras_transformer.training import run as running
from keras_transformer.training import series as training_series
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config.series import load_runs
from keras_transformer.training.series import Result
from keras_transformer.training.series import train_series

pytestmark = pytest.mark.one_backend

SHORT = {"steps": 2, "warmup_steps": 1, "validate_every": 2, "checkpoint_every": 1}
STAGES = [
    {"name": "both", "training": {"steps": 1}},
    {
        "name": "tuned",
        "model": {"dropout": 0.3},
        "seeds": [3, 5],
        "data": {
            "train": [
                {"source": "train.en", "target": "train.de"},
                {"source": "train.en", "target": {"translation_by": "both"}},
                {"source": {"translation_by": "both"}, "target": "train.de"},
            ],
            "filters": {"unique": True},
        },
    },
]

ONE_SEED = [STAGES[0], {**STAGES[1], "seeds": [3]}]


@pytest.fixture
def write(config_file):
    """Writes a config of several runs beside the texts; returns its path."""

    def write_config(**keys):
        document = yaml.safe_load(CONFIG)
        document["training"] |= SHORT
        path = config_file.with_name("several.yaml")
        path.write_text(yaml.safe_dump({**document, **keys}))
        return path

    return write_config


@contextlib.contextmanager
def changed(path):
    """A text that is another one for a while, with as many lines."""
    path = Path(path)
    text = path.read_text(encoding="utf-8")
    path.write_text(f"x{text}", encoding="utf-8")
    yield
    path.write_text(text, encoding="utf-8")


def names(series):
    return [run.name for run in series.runs]


# === The config ===


@pytest.mark.no_backend
def test_seeds_are_runs_that_differ_in_nothing_else(write):
    series = load_runs(write(seeds=3))
    assert names(series) == ["seed-1", "seed-2", "seed-3"]
    configs = [series.config(run) for run in series.runs]
    assert [config.training.seed for config in configs] == [1, 2, 3]
    plain = load_config(write()).plain()
    for config, name in zip(configs, names(series), strict=True):
        found = config.plain()
        assert str(found.pop("output")).endswith(f"runs/several/{name}")
        found["training"]["seed"] = 1
        assert found == {k: v for k, v in plain.items() if k != "output"}
    series = load_runs(write(seeds=[7, 4]), ["output=there", "training.steps=9"])
    assert names(series) == ["seed-7", "seed-4"]
    assert {series.config(run).training.steps for run in series.runs} == {9}
    assert str(series.folder) == "there"
    assert names(load_runs(None, ["seeds=2"])) == ["seed-1", "seed-2"]
    assert str(load_runs(None, ["seeds=2"]).folder) == "runs/phrasebook-en-de"
    assert isinstance(load_runs(write()), RunConfig)
    with pytest.raises(InputError, match="seeds is for several runs, which the comm"):
        load_config(write(seeds=3))


@pytest.mark.no_backend
def test_stages_differ_from_what_they_share(write, config_file):
    series = load_runs(write(stages=STAGES))
    assert names(series) == ["both", "tuned/seed-3", "tuned/seed-5"]
    both, tuned, _ = series.configs().values()
    assert (both.training.steps, tuned.training.steps) == (1, 2)
    assert (both.model["dropout"], tuned.model["dropout"]) == (0.1, 0.3)
    assert both.model["hidden_dim"] == tuned.model["hidden_dim"]
    assert tuned.data.filters.unique and not both.data.filters.unique
    assert tuned.data.batch_tokens == both.data.batch_tokens
    (origin,) = {run.after for run in series.runs[1:]}
    assert origin == "both"
    folder = config_file.parent / "runs" / "several" / "translations" / "both"
    assert tuned.data.train[1].target == (folder / "train.en",)
    assert tuned.data.train[2].source == (folder / "train.de",)
    written = series.translations(series.runs[1])
    assert [(t.by, t.text.name) for t in written] == [
        ("both", "train.en"),
        ("both", "train.de"),
    ]
    again = load_runs(write(stages=STAGES), ["training.steps=9", "model.hidden_dim=8"])
    assert {c.training.steps for c in again.configs().values()} == {9}
    assert {c.model["hidden_dim"] for c in again.configs().values()} == {8}


@pytest.mark.no_backend
def test_a_stage_goes_on_from_the_one_it_names(write):
    stages = [
        {"name": "one", "seeds": 2},
        {"name": "other", "after": "none"},
        {"name": "next", "after": "one", "seeds": 2},
        {"name": "last"},
    ]
    with pytest.raises(InputError, match="last goes on from next, which has other"):
        load_runs(write(stages=stages))
    stages[-1] |= {"seeds": 2}
    series = load_runs(write(stages=stages))
    assert {run.name: run.after for run in series.runs} == {
        "one/seed-1": None,
        "one/seed-2": None,
        "other": None,
        "next/seed-1": "one/seed-1",
        "next/seed-2": "one/seed-2",
        "last/seed-1": "next/seed-1",
        "last/seed-2": "next/seed-2",
    }


@pytest.mark.no_backend
@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"seeds": 0}, "several.yaml: seeds"),
        ({"seeds": []}, "several.yaml: seeds"),
        ({"stages": [{"steps": 3}]}, r"stages\.0: .*name"),
        ({"stages": [{"name": "a/b"}]}, r"stages\.0: 'a/b' is no name of a stage"),
        ({"stages": [{"name": "none"}]}, "'none' is no name of a stage"),
        ({"stages": [{"name": "a"}, {"name": "a"}]}, "there is another stage a"),
        ({"stages": [{"name": "a", "after": "b"}]}, "after 'b' is not an earlier"),
        ({"stages": [{"name": "a", "trainin": {}}]}, "stage a: unknown key trainin"),
        (
            {"stages": [{"name": "a"}, {"name": "b", "training": {"steps": -1}}]},
            r"stage b: training\.steps",
        ),
        ({"stages": [{"name": "a"}, {"name": "b", "model": {"hidden": 3}}]}, "stage b"),
        (
            {
                "stages": [
                    {"name": "a"},
                    {
                        "name": "b",
                        "data": {
                            "train": [
                                {"source": "x", "target": {"translation_by": "c"}}
                            ]
                        },
                    },
                ]
            },
            "stage b: translation_by 'c' is not an earlier stage",
        ),
        (
            {"conventions": "marian", "stages": [{"name": "a"}, {"name": "b"}]},
            "stage b: conventions are those of a new model, and b goes on from a",
        ),
        (
            {"stages": [{"name": "a"}, {"name": "b", "model": {"hidden_dim": 8}}]},
            r"stage b: model\.hidden_dim 8 is not that of the model, since b goes on",
        ),
        (
            {"stages": [{"name": "a"}, {"name": "b", "model": {"preset": "base"}}]},
            r"stage b: model\.preset 'base' is not that",
        ),
        (
            {
                "stages": [
                    {"name": "a"},
                    {"name": "b", "tokenizer": {"split_digits": 1}},
                ]
            },
            r"stage b: the tokenizer is that of a, .*model\.new_vocabulary",
        ),
        (
            {"stages": [{"name": "a"}, {"name": "b", "training": {"lora": {"r": 1}}}]},
            r"stage b: unknown key training\.lora\.r",
        ),
        (
            {
                "stages": [
                    {"name": "a"},
                    {
                        "name": "b",
                        "model": {"new_vocabulary": True},
                        "training": {"lora": {}},
                    },
                ]
            },
            r"stage b: training\.lora adapts a trained model to its own vocabulary",
        ),
        (
            {"stages": [{"name": "a"}, {"name": "b", "model": 5}]},
            "stage b: model: expected keys such as preset, got 5",
        ),
        (
            {"stages": [{"name": "a"}, {"name": "b", "output": "there"}]},
            "stage b: output is one folder for all stages",
        ),
        (
            {
                "stages": [
                    {"name": "a"},
                    {
                        "name": "b",
                        "data": {
                            "train": [{"source": "x", "target": "y", "tag": "<new>"}]
                        },
                    },
                ]
            },
            "stage b: the tag <new> of a corpus is none of the tokenizer's",
        ),
        (
            {
                "stages": [
                    {"name": "a"},
                    {
                        "name": "b",
                        "data": {
                            "train": [
                                {
                                    "source": "x",
                                    "target": "y",
                                    "source_language": "en",
                                    "target_language": "de",
                                }
                            ]
                        },
                    },
                ]
            },
            "stage b: its corpora have languages, and the model of a",
        ),
        (
            {
                "stages": [
                    {"name": "a", "seeds": 2},
                    {
                        "name": "b",
                        "after": "none",
                        "data": {
                            "train": [
                                {"source": "x", "target": {"translation_by": "a"}}
                            ]
                        },
                    },
                ]
            },
            "stage b: translation_by 'a' has other seeds",
        ),
        ({"baseline": "runs/a"}, "baseline is what the runs of seeds or stages"),
        (
            {"seeds": 2, "training": {"distribution": "torchrun"}},
            "distribution torchrun has several processes",
        ),
    ],
)
def test_what_is_no_series_is_refused_before_the_first_step(write, keys, message):
    with pytest.raises(InputError, match=message):
        load_runs(write(**keys))


@pytest.mark.no_backend
def test_a_new_vocabulary_is_made_as_the_common_tokenizer(write):
    tagged = [{"source": "train.en", "target": "train.de", "tag": "<new>"}]
    new = {"model": {"new_vocabulary": True}, "data": {"train": tagged}}
    stages = [{"name": "a"}, {"name": "b", **new}, {"name": "c"}]
    stages[2]["data"] = {"train": tagged}
    configs = load_runs(write(stages=stages)).configs()
    sizes = [configs[name].tokenizer.vocabulary_size for name in "ab"]
    assert sizes == [270, 270]
    assert configs["b"].model["new_vocabulary"]
    assert "new_vocabulary" not in configs["c"].model
    stages[2]["data"] = {"train": [{**tagged[0], "tag": "<other>"}]}
    with pytest.raises(
        InputError, match="stage c: the tag <other> of a corpus is none"
    ):
        load_runs(write(stages=stages))
    del stages[2]["data"]
    stages[2]["model"] = None  # as if it were left out
    stages[1]["tokenizer"] = {"vocabulary_size": 280}
    again = {"name": "d", "model": {"new_vocabulary": False, "hidden_dim": None}}
    series = load_runs(write(stages=[*stages, again]))
    assert series.configs()["b"].tokenizer.vocabulary_size == 280
    assert not series.configs()["b"].tokenizer.split_digits


@pytest.mark.no_backend
def test_a_multilingual_stage_is_told_what_to_translate_into(write):
    """From the language of the text, and into that of the side it stands for."""
    en_de = {"source_language": "en", "target_language": "de"}
    text = {"source": "train.en", "target": "train.de"}
    both = {"name": "both", "data": {"train": [{**text, **en_de}]}}
    train = [
        {"source": "train.en", "target": {"translation_by": "both"}, **en_de},
        {"source": {"translation_by": "both"}, "target": "train.de", **en_de},
        {
            "source": "train.en",
            "target": {"translation_by": "both"},
            "source_language": "en",
            "target_language": "fr",
        },
    ]
    data = {"validation": None, "test": None}
    stages = [both, {"name": "next", "data": {"train": train}}]
    series = load_runs(write(stages=stages, data=data))
    found = [
        (t.text.name, dict(t.languages)) for t in series.translations(series.runs[1])
    ]
    assert found == [
        ("train.en", en_de),
        ("train.de", {"source_language": "de", "target_language": "en"}),
        ("train.en", {"source_language": "en", "target_language": "fr"}),
    ]
    outputs = [t.output for t in series.translations(series.runs[1])]
    read = [
        Path(*corpus[side])
        for corpus, side in zip(
            series.configs()["next"].plain()["data"]["train"],
            ("target", "source", "target"),
            strict=True,
        )
    ]
    assert len(set(outputs)) == 3 and read == [path.absolute() for path in outputs]
    train[0] = {"source": "train.en", "target": {"translation_by": "both"}}
    with pytest.raises(InputError, match="translation_by both has several languages"):
        load_runs(write(stages=stages, data=data))


# === Training ===


@pytest.fixture
def stop_at(monkeypatch):
    def stop(series, number):
        """Stops the run with so many runs before it, in its second step."""
        train, count = running.train, iter(range(99))

        def interrupted(config):
            with monkeypatch.context() as patch:
                if next(count) == number:
                    patch.setattr(running, "Progress", terminating_at(2))
                return train(config)

        with monkeypatch.context() as patch:
            patch.setattr(running, "train", interrupted)
            with pytest.raises(running.Interrupted):
                train_series(series)

    return stop


def test_stages_go_on_where_they_were_stopped(
    write, config_file, capsys, monkeypatch, stop_at
):
    options = ["training.steps=3", "decoding.beam_size=1", "decoding.max_length=3"]
    path = write(stages=ONE_SEED)
    whole = load_runs(path, [*options, "output=whole"])
    results = train_series(whole)
    table = capsys.readouterr().out.splitlines()[-6:]
    assert table[0].split() == ["run", "validation", "BLEU", "chrF2", "TER"]
    assert [line.split()[0] for line in table[1:3]] == ["both", "tuned/seed-3"]
    assert table[3].startswith("BLEU: nrefs:1|")
    assert list(results) == names(whole)
    written = whole.folder / "translations" / "both" / "train.en"
    assert len(read_lines(written)) == 60
    begun = load_config(whole.folder / "tuned" / "seed-3" / "config.yaml")
    assert begun.model["folder"].endswith("whole/both/averaged")

    stopped = load_runs(path, [*options, "output=stopped"])
    stop_at(stopped, 0)
    assert json.loads((stopped.folder / "series.json").read_text())["both"]
    stop_at(stopped, 1)  # the first finishes, then is passed over
    train = running.train
    calls = []
    monkeypatch.setattr(
        running, "train", lambda config: calls.append(config.output) or train(config)
    )
    found = train_series(load_runs(path, [*options, "output=stopped"]))
    assert [path.name for path in calls] == ["seed-3"]
    for name in names(whole):
        one, other = whole.folder / name, stopped.folder / name
        assert_equal(weights_of(one / "averaged"), weights_of(other / "averaged"))
        assert found[name].scores == results[name].scores
    train_series(stopped)  # finished: nothing is trained or tested again
    assert len(calls) == 1
    with changed("val.de"), pytest.raises(InputError, match=r"both was begun with an"):
        train_series(stopped)  # its scores would be those of another text

    # A first stage that learns on is not what the next one began with.
    more = load_runs(path, [*options[1:], "training.steps=4", "output=stopped"])
    message = r"which would become another one \(training\.steps: 3 -> 4\)"
    with pytest.raises(InputError, match=message):
        train_series(more)
    calls.clear()
    train_series(stopped)  # as if nothing had been asked
    assert not calls
    record = stopped.folder / "series.json"
    content = json.loads(record.read_text())
    content["tuned/seed-3"]["origin"] = "0" * 64
    record.write_text(json.dumps(content))
    with pytest.raises(InputError, match="began with another model of both"):
        train_series(stopped)

    # A version before knew finished runs by another digest.
    content["tuned/seed-3"]["origin"] = results["tuned/seed-3"].origin
    for one in stopped.runs:
        config = stopped.config(one).plain()
        former = sha256_of_json({k: config[k] for k in config if k != "output"})
        content[one.name]["config"] = former
    record.write_text(json.dumps(content))
    patient = load_runs(path, [*options, "training.patience=9", "output=stopped"])
    train_series(stopped)
    assert not calls
    train_series(patient)  # no run had ended early: none becomes another
    calls.clear()
    with pytest.raises(InputError, match=r"stopped/both was begun with another config"):
        train_series(
            load_runs(path, [*options, "model.hidden_dim=8", "output=stopped"])
        )
    calls.clear()

    # A series that has moved: what has finished is passed over.
    whole.folder.rename("moved")
    found = train_series(load_runs(path, [*options, "output=moved"]))
    assert not calls and found == results
    (Path("moved/tuned/seed-3/averaged")).rename("gone")
    assert train_series(load_runs(path, [*options, "output=moved"])) == results
    assert [path.name for path in calls] == ["seed-3"]  # which tests again


def test_seeds_have_a_spread_and_a_baseline(write, config_file, capsys):
    series = load_runs(write(seeds=2), ["baseline=runs/several/seed-1"])
    train_series(series)
    out = capsys.readouterr().out
    lines = out[out.index("run  ") :].splitlines()
    header, *rows = (line.split() for line in lines[:6])
    assert [row[0] for row in rows] == ["seed-1", "seed-2", "mean", "standard", "range"]
    assert header == ["run", "validation", "BLEU", "chrF2", "TER", "p"]
    assert rows[0][-1] == "1.0000"  # of itself
    ter = [float(row[4]) for row in rows[:2]]
    (mean,) = (row for row in rows if row[0] == "mean")
    assert float(mean[4]) == pytest.approx(sum(ter) / 2, abs=0.011)
    assert rows[4][-3:] == [f"{min(ter):.2f}", "to", f"{max(ter):.2f}"]
    assert "p: BLEU against runs/several/seed-1 by paired bootstrap" in lines[-1]

    # A baseline that was tested on another text is refused before anything is trained.
    options = ["baseline=runs/several/seed-1", "output=later"]
    corpus = ["data.test.source=train.en", "data.test.target=train.de"]
    other = load_runs(write(seeds=1), [*options, *corpus])
    with pytest.raises(InputError, match="was tested on another text than these runs"):
        train_series(other)
    with changed("val.de"), pytest.raises(InputError, match=r"seed-1 was tested on an"):
        train_series(load_runs(write(seeds=1), options))
    assert not other.folder.exists()


def test_signatures_that_differ_name_their_runs():
    score = ("BLEU", 20.0, "tok:13a", None)
    results = {"a": Result(scores=(score,)), "b": Result(scores=(score,))}
    assert training_series.signatures(results) == ["BLEU: tok:13a"]
    results["zh"] = Result(scores=(("BLEU", 30.0, "tok:zh", None),))
    assert training_series.signatures(results) == [
        "BLEU (a, b): tok:13a",
        "BLEU (zh): tok:zh",
    ]


def test_metrics_of_one_name_have_columns_of_their_own(write):
    """And as many decimals as tell them apart."""
    series = load_runs(write(seeds=2), ["training.best_metric=loss"])
    bleu = ("BLEU", 20.0, "nrefs:1|tok:13a", None)
    scores = [
        (
            bleu,
            ("score", 0.2504, "ma:score|bs:9", None),
            ("score", 1.0, "mb:score", None),
        )
        for _ in range(2)
    ]
    results = {
        name: Result(validation=5.8012, scores=own)
        for name, own in zip(names(series), scores, strict=True)
    }
    table = training_series.summary(series, results).splitlines()
    header = ["run", "validation", "BLEU", "ma:score", "mb:score"]
    assert table[0].split() == header
    assert table[1].split() == ["seed-1", "5.8012", "20.00", "0.2504", "1.0000"]
    assert table[5].split()[:4] == ["range", "5.8012", "to", "5.8012"]
    one = {
        name: Result(scores=own[:2]) for name, own in zip(results, scores, strict=True)
    }
    table = training_series.summary(series, one).splitlines()
    assert table[0].split() == ["run", "validation", "BLEU", "score"]


def test_a_translation_goes_on_where_it_was_stopped(run, monkeypatch, tmp_path):
    """In pieces; what another model had translated is not taken."""
    folder = tmp_path / "series"
    shutil.copytree(run, folder / "one")
    document = yaml.safe_load(CONFIG)
    corpus = {"source": "train.en", "target": {"translation_by": "one"}}
    stages = [{"name": "one"}, {"name": "two", "data": {"train": [corpus]}}]
    path = run.parent / "several.yaml"
    path.write_text(yaml.safe_dump({**document, "stages": stages}))
    shutil.copy("train.en", path.parent)
    series = load_runs(path, [f"output={folder}"])
    (translation,) = series.translations(series.runs[1])
    calls = []

    class Fake:
        @classmethod
        def load(cls, folder):
            return cls()

        def check(self, lines):
            if any("too long" in line for line in lines):
                raise InputError("line 1 is too long")

        def translate(self, lines, first_line, **languages):
            assert not languages
            calls.append(first_line)
            if len(calls) == 2:
                raise KeyboardInterrupt
            return [line.upper() for line in lines]

    monkeypatch.setattr(training_series, "Translator", Fake)
    monkeypatch.setattr(training_series, "_LINES_AT_ONCE", 25)
    with pytest.raises(KeyboardInterrupt):
        training_series.translate(series, translation, lambda text: None)
    assert not translation.output.exists()
    training_series.translate(series, translation, lambda text: None)
    training_series.translate(series, translation, lambda text: None)
    assert calls == [1, 26, 26, 51]
    expected = [line.upper() for line in read_lines("train.en")]
    assert read_lines(translation.output) == expected
    weights = folder / "one" / "averaged" / "model.weights.h5"
    weights.write_bytes(weights.read_bytes() + b"x")
    training_series.translate(series, translation, lambda text: None)
    assert calls == [1, 26, 26, 51, 1, 26, 51]

    text = translation.text.read_text(encoding="utf-8")
    translation.text.write_text(f"too long {text}", encoding="utf-8")
    before = list(calls)
    with pytest.raises(InputError, match=r"train\.en: line 1 is too long"):
        training_series.translate(series, translation, lambda text: None)
    assert calls == before  # before any line is translated
    translation.text.write_text(text, encoding="utf-8")

    # Another text of as many lines, while a translation of the first is half done.
    translation.output.unlink()
    calls[:] = [0]
    with pytest.raises(KeyboardInterrupt):
        training_series.translate(series, translation, lambda text: None)
    text = translation.text.read_text(encoding="utf-8")
    translation.text.write_text(text.replace("e", "a"), encoding="utf-8")
    training_series.translate(series, translation, lambda text: None)
    assert calls == [0, 1, 1, 26, 51]
    expected = [line.upper() for line in read_lines(translation.text)]
    assert read_lines(translation.output) == expected


def test_what_is_missing_or_foreign_is_told_before_the_first_run(write, config_file):
    stages = [{"name": "a"}, {"name": "b", "data": {"test": {"tsv": "gone.tsv"}}}]
    with pytest.raises(InputError, match=r"b: cannot read .*gone\.tsv"):
        train_series(load_runs(write(stages=stages)))
    foreign = config_file.parent / "foreign"
    foreign.mkdir()
    (foreign / "thesis.txt").write_text("")
    with pytest.raises(InputError, match="foreign exists and is not of these runs"):
        train_series(load_runs(write(seeds=2), ["output=foreign"]))
