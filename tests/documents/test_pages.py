"""The documentation's commands, configs, code and messages are those of the package.

A code block that cannot run in a test says in a line above it what it needs, as in
`*Needs docker.*`.
"""

import ast
import importlib.util
import os
import re
import shlex
import shutil
import sys
import tomllib
import types
from pathlib import Path

import pytest
import typer
import yaml
from typer.testing import CliRunner

from keras_transformer.cli.main import application
from keras_transformer.config import TransformerConfig
from keras_transformer.training import load_config
from keras_transformer.training import train
from keras_transformer.training.config import RunConfig
from keras_transformer.training.config.run_config import OF_SERIES
from keras_transformer.training.config.series import load_runs

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted({*DOCS.glob("*.md")} - {DOCS / "config_keys.md"})
PAGES += [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    ROOT / "benchmarks" / "README.md",
    ROOT / "benchmarks" / "gpu" / "README.md",
    ROOT / "tutorials" / "README.md",
    ROOT / "tutorials" / "deployment" / "README.md",
    ROOT / "tutorials" / "configs" / "README.md",
]
#: Those whose code other tests run.
ELSEWHERE = {ROOT / "README.md", ROOT / "CONTRIBUTING.md"}
ELSEWHERE |= {DOCS / "change_a_block.md", DOCS / "callbacks.md"}
ELSEWHERE |= {DOCS / "add_a_loss.md"}
BLOCK = re.compile(
    r"(?:^\*(Needs|Runs) (.+?)\.\*\n\n)?^```(\w*)\n(.*?)^```$", re.M | re.S
)
FRAGMENT = 8  # characters of a message that are compared


def blocks(language, pages=PAGES):
    """Page, note, language and code of each code block in a language."""
    for page in pages:
        for found in BLOCK.finditer(page.read_text(encoding="utf-8")):
            _, note, name, code = found.groups()
            if name in language:
                yield page, note, name, code


def shell_lines(name, code):
    """The words of each command of a block; `$ ` is before those beside outputs."""
    for line in code.replace("\\\n", " ").splitlines():
        if name == "" and not line.startswith("$ "):
            continue
        for command in re.split(r" \| | && ", line.removeprefix("$ ")):
            words = shlex.split(command, comments=True)
            while words and re.fullmatch(r"\w+=.*", words[0]):
                words.pop(0)  # a variable of the environment
            if words:
                yield words


def is_own(words):
    """Whether a command is one of this package."""
    return words[0].rpartition("/")[2] == "keras-transformer"


def own_commands(pages=PAGES):
    """Page, note, arguments and input file of each command of this package."""
    for page, note, name, code in blocks({"bash", ""}, pages):
        for words in filter(is_own, shell_lines(name, code)):
            yield page, note, *arguments_of(words)


def arguments_of(words):
    """The arguments of a command, and the file that it reads as standard input."""
    redirected = [i for i, word in enumerate(words) if word in ("<", ">")]
    given = words[words.index("<") + 1] if "<" in words else None
    return words[1 : min(redirected, default=None)], given


def inline_commands():
    """Page and arguments of each command within a sentence or a table."""
    for page in PAGES:
        text = BLOCK.sub("", page.read_text(encoding="utf-8"))
        for code in re.findall(r"`(keras-transformer [^`]+)`", text):
            yield page, shlex.split(code.replace("\n", " "))[1:]


@pytest.fixture(scope="module")
def program():
    return typer.main.get_command(application())


@pytest.mark.no_backend
def test_each_command_has_the_arguments_that_the_program_takes(program):
    checked = 0
    for page, _, words, _ in own_commands():
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
def test_each_command_within_a_sentence_has_flags_of_the_program(program):
    checked = 0
    for page, words in inline_commands():
        if not words or words[0].startswith("-"):
            continue
        parameters = program.commands[words[0]].params
        flags = {flag for its in parameters for flag in its.opts + its.secondary_opts}
        given = {word.partition("=")[0] for word in words if word.startswith("--")}
        assert given <= flags, f"{page.name}: {words}"
        checked += 1
    assert checked > 20


@pytest.mark.no_backend
def test_each_config_is_valid(tmp_path, monkeypatch):
    module = types.ModuleType("my_blocks")  # what a page says to write
    module.MyTransformer = type("", (), {"config_class": TransformerConfig})
    monkeypatch.setitem(sys.modules, "my_blocks", module)
    checked = 0
    for page, _, _, code in blocks({"yaml"}):
        document = yaml.safe_load(code)
        if document is None:  # a comment
            continue
        model, data = document.get("model", {}), document.get("data", {})
        if "folder" in model or (document.get("training") or {}).get("lora"):
            folder = ROOT / "tests" / "fixtures" / "folders" / "transformer.format-1"
            document["model"] = {**model, "folder": str(folder)}
        corpus = {"source": "a", "target": "b"}
        if "objective" not in data:  # that of text in one language has no pairs
            document["data"] = {"train": [corpus], "validation": corpus, **data}
        try:
            if {*OF_SERIES} & document.keys():
                path = tmp_path / "several.yaml"
                path.write_text(yaml.safe_dump(document))
                load_runs(path)
            else:
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


HARMLESS = {
    *("cd", "echo", "export", "."),
    *("pytest", "ruff", "mypy", "pre-commit"),  # which tests/run.py runs
}


def is_known(words, folder):
    """Whether a command of another program is right: its file or its extras exist."""
    program, *arguments = words
    program = program.rpartition("/")[2]
    if program == "pip":
        return all(set(extras.split(",")) <= EXTRAS for extras in extras_of(arguments))
    if program not in ("python", "python3"):
        return program in HARMLESS
    if arguments[0] == "-m":
        module = arguments[1]
        if importlib.util.find_spec(module.partition(".")[0]):
            return True
        arguments = [f"{module.replace('.', '/')}.py"]
    folders = (ROOT, folder, folder.parent)
    return any((root / arguments[0]).is_file() for root in folders)


EXTRAS = {
    *tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"][
        "optional-dependencies"
    ]
}


def extras_of(arguments):
    """The extras of this package that a command installs."""
    found = (re.fullmatch(r"\.\[(.+)\]", argument) for argument in arguments)
    return [match[1] for match in found if match]


@pytest.mark.no_backend
def test_every_command_is_this_package_or_known_or_says_what_it_needs():
    checked = 0
    for page, note, name, code in blocks({"bash", ""}):
        for words in shell_lines(name, code):
            if not note and not is_own(words):
                assert is_known(words, page.parent), f"{page.name}: {words}"
                checked += 1
    assert checked > 20


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
    for name in ("in.txt", "source.txt"):
        shutil.copy(folder / "in.en", folder / name)
    sides = [(folder / f"train.{x}").read_text().splitlines() for x in ("en", "fr")]
    lines = [f"{source}\t{target}\n" for source, target in zip(*sides, strict=True)]
    (folder / "small.en-fr.tsv").write_text("".join(lines))


def config_of(page, number=0):
    """A config of a page, as small as can be."""
    code = [code for other, *_, code in blocks({"yaml"}) if other.name == page]
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
        for name in (
            "models/en-de",
            "runs/phrasebook-en-de/averaged",
            "runs/de-en/averaged",
        ):
            shutil.copytree("runs/my/averaged", name)
    return folder


#: Commands that are not run here: they wait, or take minutes.
NOT_RUN = (["serve"], ["train"])


def pages_to_run():
    """Those with code that needs nothing."""
    found = [page for page, note, *_ in blocks({"python"}) if not note]
    found += [page for page, note, *_ in own_commands() if not note]
    return sorted({*found} - ELSEWHERE)


def invoke(page, arguments, given):
    """Runs a command of this package in this process."""
    text = Path(given).read_text() if given else "Hello!\n"
    done = CliRunner().invoke(application(), arguments, input=text)
    assert done.exit_code == 0, (page.name, arguments, done.output, done.exception)


@pytest.mark.one_backend
@pytest.mark.slow
@pytest.mark.parametrize(
    "page", pages_to_run(), ids=lambda page: str(page.relative_to(ROOT))
)
def test_the_code_of_a_page_runs(page, run, monkeypatch):
    """Block by block, in the folder of the runs, but what needs something.

    What exports through TensorFlow does so in a test of its own.
    """
    monkeypatch.chdir(run)
    names = {}
    for _, note, name, code in blocks({"python", "bash", ""}, [page]):
        if note:
            continue
        if name == "python":
            exec(compile(code, page.name, "exec"), names)
            continue
        for words in filter(is_own, shell_lines(name, code)):
            arguments, given = arguments_of(words)
            if arguments[:1] not in NOT_RUN[:1] and arguments != NOT_RUN[1]:
                invoke(page, arguments, given)


@pytest.mark.one_backend("tensorflow")
@pytest.mark.slow
@pytest.mark.export
@pytest.mark.skipif(
    not os.environ.get("EVERY_TEST"),
    reason="needs EVERY_TEST: tests/export has each format",
)
def test_the_exports_through_tensorflow_run(run, monkeypatch):
    monkeypatch.chdir(run)
    formats = set()
    for page, note, arguments, _ in own_commands():
        if note and note.startswith("TensorFlow") and arguments[0] == "export":
            invoke(page, arguments, None)
            formats.add(arguments[arguments.index("--format") + 1])
    assert formats == {"saved_model", "onnx", "litert"}
