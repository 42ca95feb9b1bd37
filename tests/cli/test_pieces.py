"""Lines in pieces, as a pipe or a terminal gives them."""

import io
import os
import socket
import threading

import pytest

from keras_transformer.cli.reading import incoming
from keras_transformer.cli.reading import pieces

pytestmark = pytest.mark.no_backend


def ends(kind):
    """Descriptors to read from and to write to, and what ends the lines."""
    if kind == "socket":
        return *(end.detach() for end in socket.socketpair()), b""
    if kind == "terminal":
        ours, theirs = os.openpty()
        return theirs, ours, b"\x04"
    return *os.pipe(), b""


@pytest.mark.parametrize("kind", ["pipe", "socket", "terminal"])
def test_what_has_come_is_a_piece(kind):
    reading, writing, end = ends(kind)
    with os.fdopen(reading, "rb", buffering=0) as file:
        found = pieces(*three(file))
        os.write(writing, b"a\n\nb\nc\nd\ne\nf\nbeg")
        assert next(found) == [b"a", b"", b"b"]
        if kind != "terminal":  # which gives whole lines alone
            assert next(found) == [b"c", b"d", b"e", b"f"]
        os.write(writing, b"un\n" + end)
        assert next(found)[-1] == b"begun"
        if kind != "terminal":
            os.close(writing)
        assert list(found) == []
    if kind == "terminal":
        os.close(writing)


def three(file):
    lines, ready = incoming(file, None)
    return lines, 3, ready


def test_a_pipe_is_read_as_fast_as_it_is_asked():
    """Lines longer than what a pipe holds, an end without a line feed, and no pause."""
    reading, writing = os.pipe()
    texts = [b"x" * 200_000, b"", b"y" * 70_000, b"z"]

    def write():
        with os.fdopen(writing, "wb") as file:
            file.write(b"\n".join(texts))

    thread = threading.Thread(target=write)
    thread.start()
    with os.fdopen(reading, "rb") as file:
        lines, _ = incoming(file, None)
        assert list(lines) == texts
    thread.join()


def test_what_is_no_pipe_is_read_in_full_pieces(tmp_path):
    (tmp_path / "lines").write_bytes(b"a\nb\n" * 3 + b"c")
    for file in ((tmp_path / "lines").open("rb"), io.BytesIO(b"a\nb\n" * 3 + b"c")):
        with file:
            assert [len(piece) for piece in pieces(*three(file))] == [3, 4]
    assert list(pieces(range(5), 2)) == [[0, 1], [2, 3, 4]]
    assert list(pieces([], 2)) == []
