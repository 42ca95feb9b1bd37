"""The configs of `tutorials/configs`: they load, their text can be had, they start."""

import gzip
import hashlib
import importlib.util
import io
import json
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import sacrebleu.utils
import yaml
from typer.testing import CliRunner

from keras_transformer.cli.main import application
from keras_transformer.training.config import difference
from keras_transformer.training.config import load_config
from keras_transformer.training.config.series import load_runs

FOLDER = Path(__file__).parents[2] / "tutorials" / "configs"
RECIPES = sorted(FOLDER.glob("*.yaml"))
PAPER = ("wmt14_en_de_base", "wmt14_en_de_big")
PAPER_FRENCH = ("wmt14_en_fr_base", "wmt14_en_fr_big")
#: Recipes of several runs, and the recipe that each of their stages is.
STAGED = {
    "multi30k_tok_en_de_stages": {
        "both": "multi30k_tok_both",
        "single": "multi30k_tok_en_de",
        "tuned": "multi30k_tok_en_de_tuned",
        "diverse": "multi30k_tok_en_de_diverse",
    }
}
#: Recipes that go on from the model of another one.
TUNED = {
    "multi30k_en_de_tuned": "multi30k_both",
    "multi30k_en_de_diverse": "multi30k_en_de_tuned",
    "multi30k_tok_en_de_tuned": "multi30k_tok_both",
    "multi30k_tok_en_de_diverse": "multi30k_tok_en_de_tuned",
    "multi30k_tok_de_en_tuned": "multi30k_tok_both",
    "multi30k_tok_en_fr_tuned": "multi30k_tok_both_fr",
    "multi30k_tok_en_fr_diverse": "multi30k_tok_en_fr_tuned",
    "multi30k_tok_en_fr_again": "multi30k_tok_en_fr_diverse",
}


def load_recipe(path):
    """A recipe; one that tunes a model as if it began with the config of that model."""
    sections, name = read_yaml(path), path.stem
    if name in STAGED:
        *_, last = load_runs(path).configs().values()
        return last
    if name not in TUNED:
        return load_config(path)
    while name in TUNED:
        folder, name = sections["model"]["folder"], TUNED[name]
        sections = read_yaml(FOLDER / f"{name}.yaml")
        assert folder == str(Path("../..", sections["output"], "averaged"))
    begins = {key: json.dumps(sections[key]) for key in ("model", "tokenizer")}
    return load_config(path, [f"{key}={value}" for key, value in begins.items()])


def read_yaml(path):
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def corpora(config):
    """All texts of a config that are files: pairs of tuples of them."""
    data = config.data
    for corpus in filter(None, (*data.train, data.validation, data.test)):
        if corpus.source:  # no text that a teacher is to write
            yield corpus.source, corpus.target


def files(config):
    return {path for pair in corpora(config) for side in pair for path in side}


def header(recipe):
    text = recipe.read_text(encoding="utf-8")
    return re.match(r"(#.*\n)+", text)[0]


# === The files ===


@pytest.mark.no_backend
@pytest.mark.parametrize("recipe", RECIPES, ids=lambda path: path.stem)
def test_a_recipe_loads_and_its_header_is_true(recipe):
    config = load_recipe(recipe)
    size = config.tokenizer.vocabulary_size
    millions = config.translation_config(size, size).num_weights / 1e6
    text = " ".join(header(recipe).replace("#", "").split())
    (said,) = re.findall(r"([\d.]+) M weights", text)
    assert float(said) == round(millions, 1 if millions < 10 else None)
    assert f"keras-transformer train tutorials/configs/{recipe.name}" in text
    output = Path("runs") / recipe.stem.replace("_", "-")
    assert config.output in (output, output / "diverse")
    found = {path for path in files(config) if "translations" not in path.parts}
    assert found and all(path.is_relative_to(FOLDER) for path in found)


@pytest.mark.no_backend
@pytest.mark.parametrize("name", STAGED)
def test_the_stages_of_a_recipe_are_recipes(name):
    """With the same settings, and texts from the same models."""
    series = load_runs(FOLDER / f"{name}.yaml")
    found = series.configs()
    assert found.keys() == STAGED[name].keys()
    for stage, recipe in STAGED[name].items():
        path = FOLDER / f"{recipe}.yaml"
        one, other = found[stage], load_recipe(path)
        # `load_recipe` takes the model that a recipe goes on from as it is.
        lines = difference(other, one)
        own = ("model.dropout", "model.folder: None ->")
        assert all(line.startswith(own) for line in lines)
        assert one.model["dropout"] == read_yaml(path)["model"]["dropout"]
        assert one.decoding == other.decoding and one.data.test == other.data.test
    origins = {run.name: run.after for run in series.runs}
    before = {stage: TUNED.get(recipe) for stage, recipe in STAGED[name].items()}
    assert {s: o and STAGED[name][o] for s, o in origins.items()} == before
    by = [(t.by, t.text.name) for t in series.translations(series.runs[-1])]
    assert sorted(by) == [
        ("both", "train.lc.norm.tok.de.gz"),
        ("single", "train.lc.norm.tok.en.gz"),
        ("tuned", "train.lc.norm.tok.en.gz"),
    ]


@pytest.mark.no_backend
def test_the_paper_is_in_the_recipes():
    base, big = (load_config(FOLDER / f"{name}.yaml") for name in PAPER)
    assert base.data == big.data
    for config, steps, average in ((base, 100_000, 5), (big, 300_000, 20)):
        training = config.training
        assert (training.steps, training.warmup_steps) == (steps, 4000)
        assert (training.average_last, training.label_smoothing) == (average, 0.1)
        assert training.learning_rate is None  # the paper's
        assert training.keep_checkpoints >= average
        assert config.tokenizer.vocabulary_size == 37_000
        assert config.data.batch_tokens == 25_000
        assert config.decoding.beam_size == 4
        assert config.decoding.length_penalty == 0.6


@pytest.mark.no_backend
def test_the_second_task_of_the_paper_is_in_the_recipes():
    """As the first, but for its text, vocabulary, and the dropout of the big model."""
    for name, german in zip(PAPER_FRENCH, PAPER, strict=True):
        french = load_config(FOLDER / f"{name}.yaml")
        lines = difference(load_config(FOLDER / f"{german}.yaml"), french)
        changed = ["tokenizer.vocabulary_size: 37000 -> 32000"]
        changed += ["model.dropout: 0.3 -> 0.1"] if name.endswith("big") else []
        settings = [line for line in lines if not line.startswith("data.train")]
        assert sorted(settings) == sorted(changed)
        assert french.evaluation.tokenize == "13a"


@pytest.mark.no_backend
def test_the_table_of_recipes_names_each():
    table = (FOLDER / "README.md").read_text(encoding="utf-8")
    for recipe in RECIPES:
        stem = recipe.stem
        assert f"`{stem}`" in table or f"`{stem[-6:]}`" in table, stem


# === A chain of recipes, small ===

SMALL = {
    **{"training.steps": 2, "training.warmup_steps": 1, "training.validate_every": 2},
    **{"training.checkpoint_every": 2, "training.average_last": 1},
    **{"data.batch_tokens": 256, "decoding.max_length": 3},
}
FROM_NOTHING = {
    **{"model.hidden_dim": 8, "model.intermediate_dim": 8, "model.num_heads": 2},
    **{"model.num_encoder_layers": 1, "model.num_decoder_layers": 1},
    "tokenizer.vocabulary_size": 290,
}


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_commands_of_a_chain_of_recipes_run(prepare, tmp_path, monkeypatch):
    """Those in the header of `multi30k_en_de_diverse`, with less text and smaller."""
    pytest.importorskip("ctranslate2")
    monkeypatch.chdir(tmp_path)
    configs = tmp_path / "tutorials" / "configs"
    shutil.copytree(FOLDER, configs, ignore=shutil.ignore_patterns("data"))
    monkeypatch.setattr(prepare, "HERE", configs)
    monkeypatch.setattr(prepare, "DATA", configs / "data")
    write_multi30k(prepare, count=20)
    prepare.multi30k(configs / "data" / "multi30k")

    def run(*words, text=None):
        done = CliRunner().invoke(application(), words, input=text)
        assert done.exit_code == 0, (words, done.output, done.exception)
        return done.stdout

    commands = header(FOLDER / "multi30k_en_de_diverse.yaml").replace("#", "")
    (names,) = re.findall(r"for name in (.+); do", commands)
    *loop, last = re.findall(r"keras-transformer (.+)", commands)
    written = re.findall(r"multi30k/(\S+)\.gz \| .*exports/(\w+)/\S+ > (\S+)", commands)
    assert len(loop) == 2 and len(written) == 2
    for name in names.split():
        for command in loop:
            command = command.replace("$(echo $name | tr _ -)", name.replace("_", "-"))
            run(*smaller(command.replace("$name", name)))
    for source, name, target in written:
        text = gzip.decompress((configs / f"data/multi30k/{source}.gz").read_bytes())
        done = subprocess.run(
            [sys.executable, f"exports/{name}/translate.py"],
            input=text,
            capture_output=True,
            check=True,
        )
        path = configs / "data" / target
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(done.stdout)
    run(*smaller(last))
    assert (tmp_path / "runs/multi30k-en-de-diverse/averaged/config.json").is_file()


@pytest.mark.one_backend
@pytest.mark.slow
def test_the_stages_of_a_recipe_run_as_one_command(prepare, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(prepare, "HERE", tmp_path)
    monkeypatch.setattr(prepare, "DATA", tmp_path / "data")
    write_multi30k(prepare, count=20)
    prepare.multi30k(tmp_path / "data" / "multi30k")
    (name,) = STAGED
    recipe = shutil.copy(FOLDER / f"{name}.yaml", tmp_path)
    quick = {"training.jit_compile": "false", "decoding.beam_size": 1}
    small = {**SMALL, **FROM_NOTHING, **quick}
    changes = [f"{key}={value}" for key, value in small.items()]
    done = CliRunner().invoke(application(), ["train", recipe, "--set", *changes])
    assert done.exit_code == 0, (done.output, done.exception)
    table = done.stdout.splitlines()[-8:]
    assert table[0].split() == ["run", "validation", "BLEU", "chrF2", "TER"]
    assert [line.split()[0] for line in table[1:5]] == [*STAGED[name]]
    assert table[1].split()[-3:] == ["-"] * 3  # both directions have no test
    folder = tmp_path / "runs" / name.replace("_", "-")
    written = folder / "translations" / "single" / "train.lc.norm.tok.en"
    assert len(lines_of(written)) == 20
    assert (folder / "diverse" / "averaged" / "config.json").is_file()


def smaller(command):
    """The words of a command; one that trains does little."""
    words = command.split()
    if words[0] != "train":
        return words
    changes = SMALL | ({} if "both" not in words[1] else FROM_NOTHING)
    return [*words, "--set", *(f"{key}={value}" for key, value in changes.items())]


# === prepare.py ===


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """The program, which works in a folder of the test and fetches nothing."""
    spec = importlib.util.spec_from_file_location("prepare", FOLDER / "prepare.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "HERE", tmp_path)
    monkeypatch.setattr(module, "DATA", tmp_path / "data")

    def offline(request):
        raise AssertionError(f"{request.full_url} is not to be downloaded here")

    monkeypatch.setattr(module.urllib.request, "urlopen", offline)
    return module


def downloaded(prepare, url, contents):
    """Writes the archive `{path: text}` as if it had been fetched."""
    path = prepare.DATA / "downloads" / url.rpartition("/")[2]
    path.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(path, "w:gz") as archive:
        for name, data in contents.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))


def check_recipes(tmp_path, *names):
    """The recipes find all their text beside them, with as many lines on each side."""
    for name in names:
        copy = shutil.copy(FOLDER / f"{name}.yaml", tmp_path)
        for source, target in corpora(load_recipe(Path(copy))):
            for pair in zip(source, target, strict=True):
                if any("translations" in path.parts for path in pair):
                    continue  # of a stage before
                one, other = (lines_of(path) for path in pair)
                assert one and len(one) == len(other)


def lines_of(path):
    data = path.read_bytes()
    if path.suffix == ".gz":
        data = gzip.decompress(data)
    return data.decode().split("\n")[:-1]


def write_multi30k(prepare, change=None, count=2):
    """A synthetic archive, its digests; one text may be changed afterwards."""
    digests = (FOLDER / "multi30k.sha256").read_text().split()
    more = "".join(f"line {number}\n" for number in range(2, count + 1))
    texts = {name: f"{name}, line 1\n{more}".encode() for name in digests[1::2]}
    lines = [f"{hashlib.sha256(t).hexdigest()}  {n}\n" for n, t in texts.items()]
    (prepare.HERE / "multi30k.sha256").write_text("".join(lines))
    if change:
        texts[change] += b"line 3\n"
    contents = {"dataset-a3d2e0d/README.md": b"no corpus"}
    for name, text in texts.items():
        path = f"dataset-a3d2e0d/data/task1/{name}"
        raw = name.startswith("raw/")
        contents |= {f"{path}.gz": gzip.compress(text)} if raw else {path: text}
    downloaded(prepare, prepare.MULTI30K, contents)


@pytest.mark.no_backend
def test_multi30k_is_prepared_for_its_recipes(prepare, tmp_path):
    write_multi30k(prepare)
    prepare.multi30k(tmp_path / "data" / "multi30k")
    for recipe in RECIPES:
        # The texts that the commands in its header let models write.
        written = r"translate\.py > (multi30k\w*_diverse/\S+)"
        for name in re.findall(written, header(recipe)):
            path = tmp_path / "data" / name
            path.parent.mkdir(exist_ok=True)
            path.write_text("line 1\nline 2\n")
    names = [recipe.stem for recipe in RECIPES if recipe.stem.startswith("multi30k")]
    assert len(names) == 21
    check_recipes(tmp_path, *names)
    for folder in ("multi30k", "multi30k_tok"):
        assert len(list((tmp_path / "data" / folder).iterdir())) == 9


@pytest.mark.no_backend
@pytest.mark.parametrize("changed", ["raw/val.de", "tok/train.lc.norm.tok.en"])
def test_text_of_another_digest_is_refused(prepare, tmp_path, changed):
    write_multi30k(prepare, changed)
    with pytest.raises(SystemExit, match=f"{changed}.* is not the text it was"):
        prepare.multi30k(tmp_path / "data" / "multi30k")


@pytest.mark.no_backend
def test_digests_are_those_of_the_measured_text(shared_data):
    for line in (FOLDER / "multi30k.sha256").read_text().splitlines():
        digest, name = line.split()
        path = shared_data / "multi30k" / name
        path = path if path.exists() else path.with_name(f"{path.name}.gz")
        text = path.read_bytes()
        text = gzip.decompress(text) if path.suffix == ".gz" else text
        assert hashlib.sha256(text).hexdigest() == digest, name


@pytest.mark.no_backend
def test_iwslt14_is_prepared_as_papers_have_it(prepare, tmp_path):
    pytest.importorskip("sacremoses")
    tags = ["<url>x</url>", "<talkid>1</talkid>", "<title>Ein Titel, so</title>"]
    train = {
        "de": [*(f"Das ist Satz {i}, z.B." for i in range(50)), "Kurz.", ""],
        "en": [*(f"This is {i}'s one." for i in range(50)), "So much longer!", ""],
    }
    contents = {
        f"de-en/train.tags.de-en.{language}": "\n".join([*tags, *text, ""]).encode()
        for language, text in train.items()
    }
    sets = (".dev2010", "X.dev2012", ".tst2010", ".tst2011", ".tst2012")
    for number, name in enumerate(sets):
        for language in train:
            xml = (
                f'<doc>\n<seg id="1"> It’s {language.upper()} {number} </seg>\n</doc>\n'
            )
            contents[f"de-en/IWSLT14.TED{name}.de-en.{language}.xml"] = xml.encode()
    downloaded(prepare, prepare.IWSLT14, contents)
    folder = tmp_path / "data" / "iwslt14"
    prepare.iwslt14(folder)
    check_recipes(tmp_path, "iwslt14_de_en")
    found, valid = lines_of(folder / "train.de.gz"), lines_of(folder / "valid.de")
    assert len(found) == 49 and found[:2] == ["ein titel , so", "das ist satz 0 , z.b."]
    assert valid == ["das ist satz 21 , z.b.", "das ist satz 44 , z.b."]
    assert lines_of(folder / "valid.en")[0] == "this is 21 &apos;s one ."
    assert lines_of(folder / "test.en") == [f"it &apos;s en {n}" for n in range(5)]


@pytest.mark.no_backend
def test_wmt14_is_prepared_for_its_recipes(prepare, tmp_path, monkeypatch):
    urls = prepare.WMT14.values()
    assert sorted(prepare.SHA256) == sorted(url.rpartition("/")[2] for url in urls)
    monkeypatch.setattr(prepare, "SHA256", {})
    for corpus, url in prepare.WMT14.items():
        pairs = ("de-en.de", "de-en.en", "fr-en.fr", "fr-en.en")
        texts = {f"training/{corpus}.{pair}": b"a\nb\n" for pair in pairs}
        downloaded(prepare, url, texts)
    test_set = tmp_path / "test"
    test_set.write_text("c\n")
    monkeypatch.setattr(sacrebleu.utils, "get_source_file", lambda *_: str(test_set))
    monkeypatch.setattr(sacrebleu.utils, "get_reference_files", lambda *_: [test_set])
    prepare.wmt14(tmp_path / "data" / "wmt14")
    check_recipes(tmp_path, *PAPER)
    assert len(list((tmp_path / "data" / "wmt14").iterdir())) == 10


@pytest.mark.no_backend
def test_wmt14_french_is_prepared_for_its_recipes(prepare, tmp_path, monkeypatch):
    monkeypatch.setattr(prepare, "SHA256", {})
    for corpus, (url, name) in prepare.WMT14_FR.items():
        text = f"{corpus}\nb\n".encode()
        packed = gzip.compress(text) if name.endswith(".gz") else text
        names = [name.format(language) for language in ("en", "fr")]
        downloaded(prepare, url, {f"training/{name}": packed for name in names})
    test_set = tmp_path / "test"
    test_set.write_text("c\n")
    asked = []
    monkeypatch.setattr(
        sacrebleu.utils, "get_source_file", lambda *a: asked.append(a) or str(test_set)
    )
    monkeypatch.setattr(sacrebleu.utils, "get_reference_files", lambda *_: [test_set])
    folder = tmp_path / "data" / "wmt14_fr"
    prepare.wmt14_fr(folder)
    check_recipes(tmp_path, *PAPER_FRENCH)
    assert len(list(folder.iterdir())) == 14
    assert lines_of(folder / "giga-fren.fr.gz") == ["giga-fren", "b"]
    assert asked == [("wmt13", "en-fr"), ("wmt14/full", "en-fr")]
    with pytest.raises(SystemExit, match=r"un\.tgz has no missing"):
        prepare.unpack(
            prepare.DATA / "downloads" / "training-parallel-un.tgz",
            {"missing": folder / "missing.gz"},
        )


@pytest.mark.no_backend
def test_no_sentence_of_tatoeba_is_in_both_parts(prepare, tmp_path):
    # Each tenth German sentence translates the English one of the next ten as well.
    lines = [
        f"English {i // 2}.\tDeutsch {i % 5000 // 10 * 10}.\tCC-BY" for i in range(8000)
    ]
    archive = tmp_path / "data" / "downloads" / "deu-eng.zip"
    archive.parent.mkdir(parents=True)
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("deu.txt", "\n".join(lines))
    folder = tmp_path / "data" / "tatoeba_en_de"
    prepare.tatoeba_en_de(folder)
    check_recipes(tmp_path, "tatoeba_en_de", "tatoeba_en_de_base")
    for language in ("en", "de"):
        dev = lines_of(folder / f"dev.{language}")
        assert 1900 < len(dev) <= 2000
        assert not set(dev) & set(lines_of(folder / f"train.{language}.gz"))


@pytest.mark.no_backend
def test_what_is_not_the_published_text_is_told(prepare, monkeypatch, capsys):
    answer = io.BytesIO(b"half")
    answer.headers = {"Content-Length": "8"}
    monkeypatch.setattr(prepare.urllib.request, "urlopen", lambda request: answer)
    with pytest.raises(SystemExit, match="broke off after 4 of 8 bytes; run this"):
        prepare.fetch(prepare.TATOEBA)
    assert not list((prepare.DATA / "downloads").iterdir())
    url = prepare.WMT14["commoncrawl"]
    downloaded(prepare, url, {"commoncrawl.de-en.de": b"another text\n"})
    name = url.rpartition("/")[2]
    with pytest.raises(SystemExit, match=f"{name} is not the published .* remove it"):
        prepare.fetch(url)
    data = (prepare.DATA / "downloads" / name).read_bytes()
    monkeypatch.setitem(prepare.SHA256, name, hashlib.sha256(data).hexdigest())
    assert prepare.fetch(url).read_bytes() == data
    prepare.write(prepare.DATA / "iwslt14" / "test.de", b"a\n")
    assert "1 lines; the published text has 6750" in capsys.readouterr().out


@pytest.mark.no_backend
def test_without_a_network_one_line_says_what_to_do(prepare, monkeypatch):
    def offline(request):
        raise prepare.urllib.error.URLError("no route to host")

    monkeypatch.setattr(prepare.urllib.request, "urlopen", offline)
    with pytest.raises(SystemExit, match="no route to host; check the network"):
        prepare.fetch(prepare.TATOEBA)
    assert not list((prepare.DATA / "downloads").iterdir())
