"""Lines in parts that fit, and nothing lost between them."""

import random

import pytest

from keras_transformer.data.long_lines import split_line

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
