"""A file is there whole, or as it was."""

import pytest

from keras_transformer.files.whole_file import new_file
from keras_transformer.files.whole_file import write_whole

pytestmark = pytest.mark.no_backend


@pytest.fixture
def path(tmp_path):
    path = tmp_path / "text.txt"
    path.write_bytes(b"old")
    return path


def test_a_file_is_replaced_when_all_is_written(path):
    with new_file(path) as new:
        new.write_bytes(b"new")
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    write_whole(path, memoryview(b"newer"))
    assert path.read_bytes() == b"newer"
    assert list(path.parent.iterdir()) == [path]


def test_what_fails_leaves_it_as_it_was(path):
    with pytest.raises(KeyError), new_file(path) as new:
        new.write_bytes(b"half")
        raise KeyError
    with pytest.raises(NotADirectoryError):
        write_whole(path / "below", b"new")
    assert path.read_bytes() == b"old"
    assert list(path.parent.iterdir()) == [path]
