"""What a training prints in the end."""

import sys
import threading

import pytest

from keras_transformer.control_characters import escaped
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.training import report
from keras_transformer.training.config import RunConfig
from keras_transformer.waiting import waiting

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


@pytest.mark.one_backend
def test_a_card_says_what_it_is_and_names_no_folder_of_the_machine(tmp_path):
    corpus = {"source_language": "en", "target_language": "de"}
    corpus |= {side: str(tmp_path / f"train.{side}") for side in ("source", "target")}
    config = RunConfig(
        model={"preset": "tiny"},
        tokenizer={"path": str(tmp_path / "my.model")},
        data={"train": [corpus], "cache": str(tmp_path / "cache")},
    )
    card = report.model_card(config, 20, [], weights="the mean of steps 10, 20")
    assert str(tmp_path) not in card and "- train.source\n" in card
    assert " The weights\nare the mean of steps 10, 20.\n" in card
    assert "It was trained on en-de.\n" in card
    assert "keras-transformer translate . < source.txt" in card


@pytest.mark.no_backend
def test_progress_of_a_translation_comes_every_ten_seconds(monkeypatch):
    now, lines = [0.0], []
    monkeypatch.setattr(report.time, "monotonic", lambda: now[0])
    counting = report.Counting("test", lines.append)
    for done in (64, 128, 192, 256):
        now[0] += 6.0
        counting(done, 256)
    assert lines == ["test: 128 of 256 translated"]


@pytest.mark.no_backend
def test_a_wait_is_told_once_it_is_long():
    told = threading.Event()
    lines = []

    def say(text):
        lines.append(text)
        told.set()

    with waiting("loading", say, seconds=60.0):
        pass
    with waiting("compiling", say, seconds=0.0):
        assert told.wait(60.0)
    assert lines == ["compiling ..."]
