"""The documentation's commands, configs, code and messages are those of the package.

A code block that cannot run in a test says what it needs in a comment above it:
`<!-- needs: docker -->`.
"""

import ast
import re
import shlex
import shutil
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

import keras_transformer as kt
from keras_transformer.cli.main import application
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.config import RunConfig

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.glob("*.md")} - {DOCS / "config_keys.md"})
PAGES += [
    ROOT / "README.md",
    ROOT / "tutorials" / "deployment" / "README.md",
    ROOT / "tutorials" / "configs" / "README.md",
]
BLOCK = re.compile(
    r"(?:^<!-- (needs|runs): (.+?) -->\n)?^```(\w*)\n(.*?)^```$", re.M | re.S
)
FRAGMENT = 8  # characters of a message that are compared


def blocks(language):
    """Page, note and code of each code block in a language."""
    for page in PAGES:
        for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
            kind, needs, name, code = found.groups()
            if name in language:
                yield page, needs if kind == "needs" else None, code


def commands():
    """Page, needs, words and input file of each command of this package."""
    for page, needs, code in blocks({"bash", ""}):
        code = code.replace("\\\n", " ")
        for line in re.split(r"\n| \| | && ", code):
            words = shlex.split(line.removeprefix("$ "), comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)  # a variable of the environment
            if not words or not words[0].endswith("keras-transformer"):
                continue
            redirected = [i for i, word in enumerate(words) if word in ("<", ">")]
            given = words[words.index("<") + 1] if "<" in words else None
            yield page, needs, words[1 : min(redirected, default=None)], given


@pytest.mark.no_backend
def test_each_command_has_the_arguments_that_the_program_takes():
    program = typer.main.get_command(application())
    checked = 0
    for page, _, words, _ in commands():
        if not words or words[0].startswith("-"):
            continue
        command = program.commands[words[0]]
        try:
            command.make_context(words[0], list(words[1:]), resilient_parsing=False)
        except typer.Exit:
            pass  # it has printed something, such as a schema
        except Exception as error:
            pytest.fail(f"{page.name}: {' '.join(words)}: {error}")
        checked += 1
    assert checked > 40


@pytest.mark.no_backend
def test_each_config_is_valid(tmp_path):
    checked = 0
    for page, _, code in blocks({"yaml"}):
        document = yaml.safe_load(code)
        if document is None:  # a comment
            continue
        model, data = document.get("model", {}), document.get("data", {})
        if "folder" in model or (document.get("training") or {}).get("lora"):
            folder = ROOT / "tests" / "fixtures" / "folders" / "transformer.format-1"
            document["model"] = {**model, "folder": str(folder)}
        corpus = {"source": "a", "target": "b"}
        document["data"] = {"train": [corpus], "validation": corpus, **data}
        try:
            RunConfig.model_validate(document)
        except ValueError as error:
            pytest.fail(f"{page.name}: {error}\n{code}")
        checked += 1
    assert checked >= 10


def texts():
    """Each text of the package's source, with a NUL for what is filled in."""
    for path in (ROOT / "keras_transformer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [getattr(part, "value", "\0") for part in node.values]
                yield "".join(p if isinstance(p, str) else "\0" for p in parts)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                yield node.value


@pytest.mark.no_backend
def test_each_error_message_is_one_of_the_package():
    page = (DOCS / "error_messages.md").read_text(encoding="utf-8")
    titles = re.findall(r"^### (.+)$", page, re.M)
    assert len(titles) > 30
    source = "\n".join(texts())
    others = {"GPU is not used", "RESOURCE_EXHAUSTED, CUDA out of memory, Killed"}
    for title in {*titles} - others:
        fragments = [part.strip() for part in title.split("…")]
        long = [part for part in fragments if len(part) >= FRAGMENT]
        assert long, title
        for fragment in long:
            assert fragment in source, f"{fragment!r} of {title!r}"


@pytest.mark.no_backend
def test_what_is_not_run_says_what_it_needs():
    for page, needs, code in blocks({"bash"}):
        for program in ("docker ", "curl ", "torchrun "):
            if page.parent == DOCS and code.startswith(program):
                assert needs, f"{page.name}: say what this needs:\n{code}"


TINY = {
    "model": {
        **{"hidden_dim": 16, "intermediate_dim": 24, "num_heads": 2},
        **{"num_encoder_layers": 1, "num_decoder_layers": 1},
    },
    "training": {
        **{"steps": 4, "warmup_steps": 2, "validate_every": 2},
        **{"checkpoint_every": 2, "keep_best": 1},
    },
}


def write_texts(folder):
    """The texts that the pages name, in English, German and French."""
    sizes = {"train": 40, "valid": 3, "test": 3, "new": 3, "lines": 3, "in": 3}
    for name, count in sizes.items():
        for language, word in {"en": "room", "de": "Zimmer", "fr": "salle"}.items():
            lines = [f"{word} {number}\n" for number in range(count)]
            (folder / f"{name}.{language}").write_text("".join(lines))
    shutil.copy(folder / "in.en", folder / "in.txt")
    sides = [(folder / f"train.{x}").read_text().splitlines() for x in ("en", "fr")]
    lines = [f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)]
    (folder / "small.en-fr.tsv").write_text("".join(lines))


def config_of(page, number=0):
    """A config of a page, as small as can be."""
    code = [code for other, _, code in blocks({"yaml"}) if other.name == page]
    config = yaml.safe_load(code[number])
    if "folder" not in config["model"]:
        config |= {"model": TINY["model"], "tokenizer": {"vocabulary_size": 290}}
    config["training"] = TINY["training"]
    config["data"]["batch_tokens"] = 64
    return config


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """A folder with the texts, the runs and the models that the pages name."""
    folder = tmp_path_factory.mktemp("world")
    write_texts(folder)
    for name, config in {
        "my": config_of("README.md"),
        "languages": config_of("languages.md"),
        "tune": config_of("fine_tune.md"),
    }.items():
        (folder / f"{name}.yaml").write_text(yaml.safe_dump(config))
    shutil.copytree(ROOT / "tutorials/pretrained/en-de", folder / "opus-mt-en-de")
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for name in ("my", "languages"):
            train(load_config(f"{name}.yaml"))
        for copy in ("models/en-de", "runs/phrasebook-en-de/averaged"):
            shutil.copytree("runs/my/averaged", copy)
    return folder


@pytest.mark.one_backend
@pytest.mark.slow
def test_python_of_the_pages_runs(run, monkeypatch):
    """Page by page, its blocks one after the other, in the folder of the runs."""
    monkeypatch.chdir(run)
    ran = 0
    for page in PAGES:
        if page.name in ("change_a_block.md", "README.md"):
            continue  # which tests of their own run
        names = {"kt": kt}
        for other, needs, code in blocks({"python"}):
            if other == page and not needs:
                exec(compile(code, page.name, "exec"), names)
                ran += 1
    assert ran >= 10
    assert (run / "models" / "my-mean" / "config.json").is_file()
    assert (run / "models" / "en-de-tuned" / "config.json").is_file()


@pytest.mark.one_backend
@pytest.mark.slow
def test_commands_of_the_pages_run(run, monkeypatch):
    """In order, but those that need something, wait, or export through TensorFlow."""
    monkeypatch.chdir(run)
    ran = 0
    for page, needs, words, given in commands():
        through_tensorflow = {"onnx", "saved_model", "litert"} & {*words}
        if needs or page.parent != DOCS or words[0] == "serve" or through_tensorflow:
            continue
        if words == ["train"]:
            continue  # minutes; test_examples.py has it
        text = Path(given).read_text() if given else "Hello!\n"
        done = CliRunner().invoke(application(), words, input=text)
        assert done.exit_code == 0, (page.name, words, done.output, done.exception)
        ran += 1
    assert ran > 15
