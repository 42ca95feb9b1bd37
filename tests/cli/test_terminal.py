"""What a terminal is shown: text, and no characters that it would obey."""

import contextlib
import os
import unicodedata

import pytest

from keras_transformer.control_characters import escaped

pytestmark = pytest.mark.no_backend

#: Sets the title of the window, in three ways of writing it; erases a line; rings.
EVIL = "a\x1b]0;title\x07b\x9d0;title\x9cc\x7f\x08d\re"
SHOWN = r"A\x1b]0;TITLE\x07B\x9d0;TITLE\x9cC\x7f\x08D\x0dE"


def on_a_terminal(start, *arguments, input):
    """What the terminal that is standard output gets."""
    ours, theirs = os.openpty()
    process = start(*arguments, stdout=theirs)
    process.stdin.write(input)
    process.stdin.close()
    process.wait()
    os.close(theirs)
    text = b""
    with contextlib.suppress(OSError):  # how a terminal ends
        while part := os.read(ours, 4096):
            text += part
    os.close(ours)
    process.stdin = None
    return text.replace(b"\r\n", b"\n").decode()


def test_a_terminal_is_shown_control_characters_and_obeys_none(model, start):
    text = f"{EVIL}\nö\ttab\n".encode()
    shown = f"{SHOWN}\nÖ\tTAB\n"
    assert on_a_terminal(start, "translate", model, input=text) == shown
    table = on_a_terminal(start, "translate", model, "--top-beams", 2, input=text)
    assert f"1\t1\t-1.000000\t{SHOWN}\n" in table
    json = on_a_terminal(start, "translate", model, "--format", "jsonl", input=text)
    assert not set(map(chr, [*range(9), *range(11, 32), *range(127, 160)])) & set(json)


def test_files_and_pipes_get_the_text_as_it_is(model, start, tmp_path):
    process = start("translate", model, "--output", tmp_path / "out")
    process.communicate(EVIL.encode())
    assert (tmp_path / "out").read_bytes().decode() == f"{EVIL.upper()}\n"
    process = start("translate", model)
    assert process.communicate(EVIL.encode())[0].decode() == f"{EVIL.upper()}\n"


def test_errors_hold_no_control_characters(start):
    process = start("info", "no\x1b[2Jmodel\x9b")
    error = process.communicate()[1].decode()
    assert error == (
        "error: there is no folder no\\x1b[2Jmodel\\x9b; give a model folder that "
        "training wrote\n"
    )


def test_every_control_character_is_escaped():
    every = "".join(map(chr, range(0x110000 - 0x800, 0x110000)))
    every += "".join(map(chr, range(0xD800)))
    left = {letter for letter in escaped(every) if unicodedata.category(letter) == "Cc"}
    assert left == {"\t", "\n"}
