"""Lines in parts that fit, and nothing lost between them."""

import random

import pytest

from keras_transformer.translation.long_lines import split_line

pytestmark = pytest.mark.no_backend


def texts(line, limit):
    return [part.text for part in split_line(line, lambda text: len(text) <= limit)]


def test_a_line_that_fits_stays_as_it_is():
    assert texts(" One. Two. ", 11) == [" One. Two. "]


@pytest.mark.parametrize(
    ("line", "parts"),
    [
        ("He is 3.14 m tall. Is he? Yes!", ["He is 3.14 m tall.", "Is he?", "Yes!"]),
        ('He said "No." Then he left it.', ['He said "No."', "Then he left it."]),
        (
            "Er rief: „Komm!“ Dann war es still.",
            ["Er rief: „Komm!“", "Dann war es still."],
        ),
        ("»Nein.« Er ging weit fort.", ["»Nein.«", "Er ging weit fort."]),
        (
            "我爱你。你爱我吗？是的，我也爱你很多很多很多。",
            ["我爱你。", "你爱我吗？", "是的，我也爱你很多很多很多。"],
        ),
        ("one two three four five six", ["one two three", "four five six"]),
        ("a" * 30, ["a" * 15] * 2),
    ],
)
def test_sentences_then_windows(line, parts):
    assert texts(line, 20) == parts


def test_nothing_is_lost_and_all_fits():
    draw = random.Random(0)
    for _ in range(300):
        line = "".join(draw.choices("ab. !?。\t\u2028é", k=draw.randrange(60)))
        parts = split_line(line, lambda text: len(text) <= 5)
        assert "".join(part.text + part.separator for part in parts) == line
        if len(parts) > 1:
            assert all(len(part.text) <= 5 for part in parts)
            assert not any(part.separator.strip() for part in parts)


class Copied(str):
    """A text that counts the characters of its parts."""

    count = 0

    def __getitem__(self, key):
        return self.noted(super().__getitem__(key))

    def rstrip(self):
        return self.noted(super().rstrip())

    def noted(self, text):
        Copied.count += len(text)
        return Copied(text)


@pytest.mark.parametrize("line", ["ab " * 20_000, "ab" * 30_000, "ab. " * 15_000])
def test_the_work_grows_with_the_line_not_with_its_square(line, monkeypatch):
    monkeypatch.setattr(Copied, "count", 0)
    split_line(Copied(line), lambda text: len(text) <= 50)
    halvings = 11  # of 60,000 characters, until they are 50
    assert Copied.count < 5 * halvings * len(line)


@pytest.mark.parametrize("marks", ["." * 300_000, ".'" * 150_000, "?" * 300_000 + "'"])
def test_a_long_row_of_marks_is_read_once(marks):
    """Else this takes minutes."""
    line = f"a {marks}b. c"
    parts = split_line(line, lambda text: text in ("c", line[:-2]))
    assert [part.text for part in parts] == [line[:-2], "c"]
