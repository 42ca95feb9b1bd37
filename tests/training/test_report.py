"""What a training prints in the end."""

import sys

import pytest

from keras_transformer.control_characters import escaped
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.training import report

EVIL = "a\x1b]0;title\x07b"


@pytest.mark.one_backend
def test_a_terminal_is_shown_no_control_characters(capsys, monkeypatch):
    text = ParallelText([EVIL], [EVIL])
    report.say(EVIL)
    report.print_test(text, [EVIL], [])
    output, error = capsys.readouterr()
    assert error == f"{escaped(EVIL)}\n"
    assert output.count(EVIL) == 3
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    report.print_test(text, [EVIL], [])
    assert capsys.readouterr().out.count(escaped(EVIL)) == 3
