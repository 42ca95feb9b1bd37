"""A line that was split is one hypothesis again."""

import pytest

from keras_transformer.translation.hypothesis import Hypothesis
from keras_transformer.translation.hypothesis import join
from keras_transformer.translation.long_lines import LinePart

pytestmark = pytest.mark.no_backend


def hypothesis(text, total, alignment=None, finished=True):
    ids = list(range(len(text.split()) + 1))
    scores = None if alignment is None else [total] * len(ids)
    return Hypothesis(
        text=text,
        tokens=text.split(),
        ids=ids,
        log_probability=total,
        score=total / 2,
        finished=finished,
        alignment=alignment,
        token_scores=scores,
    )


def test_parts_are_joined_rank_by_rank():
    parts = [LinePart("a b.", " "), LinePart("c d.", "  "), LinePart("e.", " ")]
    rows = [
        [hypothesis("A B.", -1.0, [(0, 0), (1, 1)]), hypothesis("X.", -2.0, [(1, 0)])],
        [hypothesis("C.", -3.0, [(0, 0), (1, 0)])],
        [hypothesis("E.", -4.0, [(0, 0)], finished=False), hypothesis("", -5.0, [])],
    ]
    best, second = join(rows, parts)
    assert best.text == "A B. C.  E."
    assert best.tokens == ["A", "B.", "C.", "E."]
    assert best.ids == [0, 1, 0, 0, 1]  # no end but that of the last part
    assert (best.log_probability, best.score, best.finished) == (-8.0, -4.0, False)
    assert best.alignment == [(0, 0), (1, 1), (2, 2), (3, 2), (4, 3)]
    assert best.pharaoh == "0-0 1-1 2-2 3-2 4-3"
    assert best.token_scores == [-1.0] * 2 + [-3.0] + [-4.0] * 2
    # A part with fewer hypotheses gives its last one.
    assert second.text == "X. C.  "
    assert second.alignment == [(1, 0), (2, 1), (3, 1)]


def test_a_translation_is_one_line_whatever_parts_its_source_has():
    parts = [LinePart("a.", "\n"), LinePart("b.", "\n\n")]
    (found,) = join([[hypothesis("A.", -1.0)], [hypothesis("B.", -1.0)]], parts)
    assert found.text == "A. B."


@pytest.mark.parametrize(
    ("texts", "joined", "alignment"),
    [
        (("I love you.", "You me."), "I love you. You me.", [(0, 0), (0, 3), (1, 4)]),
        (("愛する。", "あなたも。"), "愛する。あなたも。", [(0, 0), (1, 1)]),
    ],
)
def test_where_no_space_separates_parts_their_words_go_on(texts, joined, alignment):
    parts = [LinePart("我爱你。", ""), LinePart("你 爱我。", "")]
    first = [hypothesis(texts[0], -1.0, [(0, 0)])]
    second = [hypothesis(texts[1], -1.0, [(0, 0), (1, 1)])]
    (found,) = join([first, second], parts)
    assert found.text == joined
    assert found.alignment == alignment


def test_one_part_is_left_as_it_is():
    row = [hypothesis("a", -1.0), hypothesis("b", -2.0)]
    assert join([row], [LinePart("x", "")]) is row
    assert row[0].pharaoh is None
