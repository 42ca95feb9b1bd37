"""The program of an export: what it reads, and from where it reads nothing."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.export import programs

pytestmark = pytest.mark.no_backend

PROGRAM = Path(programs.__file__).with_name("translate.py")
#: In place of the one that runs a model: the translation is the source.
ENGINE = """
from types import SimpleNamespace


class Engine:
    makes_batches = True

    def __init__(self, folder, description, threads=0):
        self.graphs = description.get("graphs", {})

    def search(self, sources, limits, **options):
        count = options["options"]["top_beams"]
        return [
            [SimpleNamespace(ids=ids, score=-0.5 - rank) for rank in range(count)]
            for ids in sources
        ]
"""
DESCRIPTION = {
    "files": {
        "source_tokenizer": "tokenizer.model",
        "target_tokenizer": "tokenizer.model",
    },
    "graphs": {"step": {"file": "step.onnx"}},
    "ids": {"pad": 0, "start": 1, "end": 2, "suppressed": [0, 1]},
    "source_end": True,
    "limits": {"extra_length": 50, "longest_sequence": 64},
    "search": {"beam_size": 1, "length_penalty": 0.6},
}


@pytest.fixture
def folder(tmp_path):
    """An export, as far as the program knows."""
    folder = tmp_path / "export"
    folder.mkdir()
    shutil.copy(PROGRAM, folder)
    (folder / "engine.py").write_text(ENGINE)
    (folder / "step.onnx").write_bytes(b"a graph")
    Tokenizer.train(["a b c ä"] * 9, 266, normalization="identity").save(
        folder / "tokenizer.model"
    )
    describe(folder)
    return folder


def describe(folder, **changes):
    (folder / "model.json").write_text(json.dumps({**DESCRIPTION, **changes}))


def translate(folder, text, *arguments):
    return subprocess.run(
        [sys.executable, folder / "translate.py", *arguments],
        input=text,
        capture_output=True,
        check=False,
    )


def test_a_byte_order_mark_is_no_part_of_the_text(folder):
    lines = "a b\n\ufeffc\r\n\nä".encode()
    found = translate(folder, b"\xef\xbb\xbf" + lines)
    assert (found.returncode, found.stderr) == (0, b"")
    assert found.stdout.decode() == "a b\n\ufeffc\n\nä\n".replace("\r", "")
    assert translate(folder, lines).stdout == found.stdout


def test_several_hypotheses_have_a_line_each(folder):
    search = {**DESCRIPTION["search"], "beam_size": 3, "top_beams": 2}
    describe(folder, search=search)
    found = translate(folder, b"a b\n\n").stdout.decode().splitlines()
    assert found == ["1\t1\t-0.500000\ta b", "1\t2\t-1.500000\ta b", "2\t1\t0.000000\t"]
    assert translate(folder, b"a b\n", "--beam-size", "1").stdout == b"a b\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--beam-size", "0"], "beam_size must be at least 1"),
        (["--beam-size", "-1"], "beam_size must be at least 1"),
        (["--batch-size", "0"], "batch_size must be at least 1"),
        (["--length-penalty", "nan"], "length_penalty must be a number from 0"),
        (["--length-penalty=-1"], "length_penalty must be a number from 0"),
    ],
)
def test_a_number_that_is_none_is_one_line(folder, arguments, message):
    found = translate(folder, b"a b\n", *arguments)
    assert (found.returncode, found.stdout) == (1, b"")
    assert found.stderr.decode() == f"error: {message}\n"


@pytest.mark.parametrize("part", ["source_tokenizer", "target_tokenizer", "graph"])
@pytest.mark.parametrize("how", ["parent", "absolute", "link", "folder", "missing"])
def test_files_outside_of_the_folder_are_not_opened(folder, tmp_path, part, how):
    outside = tmp_path / "outside"
    shutil.copy(folder / "tokenizer.model", outside)
    os.symlink(outside, folder / "link")
    (folder / "folder").mkdir()
    name = {"parent": "../outside", "absolute": str(outside)}.get(how, how)
    if part == "graph":
        describe(folder, graphs={"step": {"file": name}})
    else:
        describe(folder, files={**DESCRIPTION["files"], part: name})
    found = translate(folder, b"a b\n")
    assert (found.returncode, found.stdout) == (1, b"")
    message = found.stderr.decode()
    assert message.startswith(f"error: {name!r} is not a file of the folder ")
    assert message.count("\n") == 1


def test_a_description_that_leads_elsewhere_is_not_read(folder, tmp_path):
    (folder / "model.json").rename(tmp_path / "model.json")
    os.symlink(tmp_path / "model.json", folder / "model.json")
    found = translate(folder, b"a b\n")
    assert b"'model.json' is not a file of the folder" in found.stderr


def test_links_within_the_folder_and_to_it_are_followed(folder, tmp_path):
    (folder / "tokenizer.model").rename(folder / "spm.model")
    os.symlink("spm.model", folder / "tokenizer.model")
    os.symlink(folder, tmp_path / "other")
    assert translate(tmp_path / "other", b"a b\n").stdout == b"a b\n"
