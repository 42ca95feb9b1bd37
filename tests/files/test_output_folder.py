"""Folders that are written: whole or not at all, and never over somebody's files."""

import os
from pathlib import Path

import pytest

from keras_transformer.errors import InputError
from keras_transformer.files.output_folder import new_folder

pytestmark = pytest.mark.no_backend

KIND = ("a letter", ("letter", "stamp"), ("photograph",))


@pytest.fixture
def letter(tmp_path):
    folder = tmp_path / "mine"
    write(folder, "old")
    return folder


def write(folder, text):
    with new_folder(folder, *KIND) as new:
        for name in ("letter", "stamp"):
            (new / name).write_text(text)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def test_an_older_one_is_replaced_with_what_it_may_have(letter, tmp_path):
    (letter / "photograph").touch()
    write(letter, "new")
    assert names(letter) == ["letter", "stamp"]
    assert (letter / "letter").read_text() == "new"
    assert names(tmp_path) == ["mine"]


def test_what_is_no_part_of_it_is_never_removed(letter, tmp_path):
    (letter / "thesis.txt").touch()
    with pytest.raises(
        InputError, match=r"also holds thesis\.txt; move these files away"
    ):
        write(letter, "new")
    assert (letter / "letter").read_text() == "old"
    assert names(letter) == ["letter", "stamp", "thesis.txt"]
    (letter / "stamp").unlink()
    with pytest.raises(InputError, match="exists and is not a letter; choose another"):
        write(letter, "new")
    assert names(tmp_path) == ["mine"]


def test_a_link_to_an_older_one_stays_a_link(letter, tmp_path):
    link = tmp_path / "link"
    link.symlink_to("mine")
    write(link, "new")
    assert link.is_symlink() and (letter / "letter").read_text() == "new"
    assert names(tmp_path) == ["link", "mine"]


def test_what_cannot_be_replaced_stays(letter, tmp_path, monkeypatch):
    rename = Path.rename

    def fail_at_first(path, target):
        if target == letter and not path.name.endswith(".old"):
            raise OSError(28, os.strerror(28))
        return rename(path, target)

    monkeypatch.setattr(Path, "rename", fail_at_first)
    with pytest.raises(InputError, match="No space left on device; check the folder"):
        write(letter, "new")
    assert (letter / "letter").read_text() == "old"
    assert names(tmp_path) == ["mine"]


def test_a_block_that_fails_leaves_nothing(letter, tmp_path):
    with pytest.raises(ZeroDivisionError), new_folder(letter, *KIND):
        raise ZeroDivisionError
    assert (letter / "letter").read_text() == "old"
    with pytest.raises(ZeroDivisionError), new_folder(tmp_path / "other", *KIND):
        raise ZeroDivisionError
    assert names(tmp_path) == ["mine"]
