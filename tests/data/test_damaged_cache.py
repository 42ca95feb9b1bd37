"""Damage to a cache of encoded text: it is written anew, or named when it is read."""

import json
import os
import shutil

import numpy as np
import pytest
from cached_text import folders
from cached_text import lists

from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend


@pytest.mark.parametrize("name", ["source.ids", "target.ids"])
def test_damaged_ids_are_named_when_they_are_read(encode, tmp_path, name):
    whole = encode()
    (folder,) = (tmp_path / "cache" / name for name in folders(tmp_path))
    content = bytearray((folder / name).read_bytes())
    content[-1] ^= 1
    (folder / name).write_bytes(content)
    pairs = encode().pairs
    assert pairs.fault is None
    with pytest.raises(InputError, match=rf"{name} is damaged, near byte 0; remove"):
        pairs.take(np.array([2]))
    assert name in str(pairs.fault)
    shutil.rmtree(folder)
    again = encode()
    assert lists(again.pairs)
    assert again.digest == whole.digest is not None


def test_a_cache_of_an_earlier_version_is_read_with_one_line(
    encode, tmp_path, no_encoding
):
    before = lists(encode().pairs)
    (folder,) = (tmp_path / "cache" / name for name in folders(tmp_path))
    (folder / "checksums").unlink()
    manifest = json.loads((folder / "manifest.json").read_text())
    for key in ("sha256", "checksums_sha256", "block_bytes"):
        del manifest[key]
    for record in manifest["files"]:
        del record["ctime_ns"]
    (folder / "manifest.json").write_text(json.dumps(manifest))
    no_encoding()
    again = encode()
    assert lists(again.pairs) == before
    assert again.digest is None
    (line,) = encode.said[1]
    assert "no checksums, as of an earlier version" in line


def link_out(path):
    path.rename(path.parents[2] / path.name)
    path.symlink_to(path.parents[2] / path.name)


def file_for_folder(path):
    shutil.rmtree(path.parent)
    path.parent.write_text("no folder")


def change(**values):
    def write(path):
        manifest = json.loads(path.read_text())
        del manifest["sha256"]
        path.write_text(json.dumps(manifest | values))

    return write


FORMS = {
    "manifest.json that is a list": lambda path: path.write_text("[]"),
    "manifest.json that is null": lambda path: path.write_text("null"),
    "manifest.json without end": lambda path: path.write_text("[" * 100_000),
    "manifest.json with a flipped bit": lambda path: path.write_text(
        path.read_text().replace('"empty": 1', '"empty": 3')
    ),
    "manifest.json without reports": change(reports=None),
    "manifest.json with words for numbers": change(pairs="many"),
    "manifest.json with a negative number": change(pairs=-1),
    "manifest.json with a huge number": change(pairs=10**30),
    "manifest.json with reports of words": change(reports=[{"kept": "x"}]),
    "manifest.json with files of numbers": change(files=[3]),
    "manifest.json that is a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "source.ids that is a pipe": lambda path: (path.unlink(), os.mkfifo(path)),
    "source.ids that leads out": link_out,
    "source.ids that is a folder": lambda path: (path.unlink(), path.mkdir()),
    "target.offsets with a flipped bit": lambda path: path.write_bytes(
        path.read_bytes()[:-5] + b"\1" + path.read_bytes()[-4:]
    ),
    "checksums that are cut off": lambda path: path.write_bytes(b"123"),
    "checksums that are missing": lambda path: path.unlink(),
    "source.ids in a folder that is a file": file_for_folder,
}


@pytest.mark.parametrize("form", FORMS)
def test_a_cache_of_any_wrong_form_is_written_anew(encode, tmp_path, form):
    before = lists(encode().pairs)
    (folder,) = (tmp_path / "cache" / name for name in folders(tmp_path))
    FORMS[form](folder / form.split()[0])
    assert lists(encode().pairs) == before
    assert "or the cache is damaged: encoding the text again" in encode.said[1][0]
    assert folders(tmp_path) == [folder.name]
    encode()
    assert not encode.said[2]
