"""White space and invisible characters are no content, by the tokenizer's own rule."""

import sys
import unicodedata
from importlib import resources

import pytest

from keras_transformer.data.encoding import encode_pairs
from keras_transformer.data.filters import CorpusReport
from keras_transformer.data.parallel_text import ParallelText
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

LINE = "The quick brown fox jumps over 2017 dogs."
#: Every line is `LINE`, with one change that nobody means.
CHANGED = {
    "leading space": f" {LINE}",
    "trailing space": f"{LINE} ",
    "double space": LINE.replace(" ", "  ", 1),
    "no-break space": LINE.replace(" ", "\u00a0", 1),
    "narrow no-break space": LINE.replace(" ", "\u202f"),
    "ideographic space": LINE.replace(" ", "\u3000"),
    "tab": LINE.replace(" ", "\t", 2),
    "line ends": f"\r\n{LINE}\r\n",
    "line separator": LINE.replace(" ", "\u2028", 1),
    "soft hyphen": LINE.replace("quick", "qu\u00adick"),
    "zero-width space": f"{LINE}\u200b",
    "word joiner": LINE.replace("fox", "f\u2060ox"),
    "byte order mark": f"\ufeff{LINE}",
    "direction marks": f"\u200e{LINE}\u202c",
    "control character": LINE.replace("fox", "\x1b\x07fox"),
    "all at once": f"\ufeff \u00a0{LINE}\u200b \t\u00ad ",
}
#: Lines of which nothing is left.
NOTHING = [
    "",
    " ",
    "\t \u00a0\u3000\u2028",
    *"\u200b\ufeff\u00ad\u2060\u200e\u200f\u200d\u200c\0",
]
NOTHING += ["\u200b \0\u200d"]

KEPT = {
    "joiner of an emoji": "👩\u200d👧",
    "non-joiner of Persian": "می\u200cخواهم",
    "tags of a flag": "🏴\U000e0067\U000e0062\U000e007f",
    "variation selector": "❤\ufe0f",
    "Arabic end of ayah, a format character that shows": "\u06dd",
    "compatibility characters": "ﬁ ² ①",
    "combining mark": "Cafe\u0301",
}


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer.train([LINE] * 9 + [text for text in KEPT.values()], 330)


@pytest.mark.parametrize("change", CHANGED)
def test_a_change_that_nobody_means_changes_no_token(tokenizer, change):
    assert tokenizer.encode([CHANGED[change]]) == tokenizer.encode([LINE])
    assert tokenizer.normalize(CHANGED[change]) == LINE


@pytest.mark.parametrize("name", KEPT)
def test_what_a_text_needs_stays(tokenizer, name):
    text = KEPT[name]
    assert tokenizer.decode(tokenizer.encode([text])) == [text]
    assert not tokenizer.is_empty(text)


def test_lines_of_which_nothing_is_left_are_empty(tokenizer):
    assert all(map(tokenizer.is_empty, NOTHING))
    others = ["a", ".", " a", "\u200ba", "\ufffd", "٠", "\ud800"]
    assert not any(map(tokenizer.is_empty, others))
    with pytest.raises(InputError, match="lone surrogate"):
        tokenizer.encode(["\ud800"])


def test_a_tokenizer_that_keeps_all_has_white_space_alone_for_nothing():
    lossless = Tokenizer.train([LINE] * 9, 300, normalization="identity")
    assert lossless.is_empty(" \t\u3000")
    assert lossless.is_empty("\0\u200d")
    assert not lossless.is_empty("\u200b")
    for line in (*CHANGED.values(), *NOTHING):
        assert lossless.decode(lossless.encode([line])) == [line]


@pytest.mark.parametrize("name", ["nfkc", "nmt_nfkc"])
def test_the_other_rules_have_single_spaces(name):
    tokenizer = Tokenizer.train([LINE] * 9, 300, normalization=name)
    spaces = ("leading space", "trailing space", "double space", "no-break space")
    for change in spaces:
        assert tokenizer.normalize(CHANGED[change]) == LINE
    loses = name == "nmt_nfkc"  # as its documentation says
    assert tokenizer.normalize("a\u200cb") == ("a b" if loses else "a\u200cb")


def test_training_leaves_out_what_is_empty_and_what_was_there_before(tokenizer):
    lines = [LINE, *CHANGED.values(), *NOTHING, "dogs"]
    text = ParallelText(lines, [LINE] * len(lines))
    pairs, report = encode_pairs(text, tokenizer, tokenizer, 99, unique=True)
    assert len(pairs) == 2
    counts = {"empty": len(NOTHING), "duplicates": len(CHANGED)}
    assert report == CorpusReport(2, too_long=0, max_length=99, space_marks=0, **counts)


def test_the_rule_has_what_unicode_calls_space_control_and_format():
    """But for format characters that show, and for the tags and joiners of emoji."""
    path = resources.files("keras_transformer.data") / "whitespace.tsv"
    lines = path.read_text(encoding="utf-8").splitlines()
    rule = {
        chr(int(key, 16)): value for key, value, _ in (s.split("\t") for s in lines)
    }
    assert set(rule.values()) == {"", "0020"}
    spaces = {character for character, value in rule.items() if value}
    every = set(map(chr, range(1, sys.maxunicode + 1)))
    # U+2581 is SentencePiece's own mark of a space.
    assert spaces == {c for c in every if c.isspace()} - {" "} | {"\u2581"}
    invisible = {c for c in every if unicodedata.category(c) in ("Cc", "Cf")} - spaces
    shown = {*range(0x600, 0x606), 0x6DD, 0x70F, 0x890, 0x891, 0x8E2, 0x110BD, 0x110CD}
    hieroglyphs, tags = range(0x13430, 0x13456), range(0xE0020, 0xE0080)
    joiners = (0x200C, 0x200D)
    needed = set(map(chr, [*shown, *hieroglyphs, *tags, *joiners]))
    assert rule.keys() - spaces == invisible - needed


def test_a_changed_line_has_the_tokens_of_the_clean_one(shared_data):
    """300 lines for each kind of change."""
    folder = shared_data / "cases" / "ws"
    if not folder.is_dir():
        pytest.skip("needs the changed lines")
    texts = {
        path.stem: path.read_text(encoding="utf-8").split("\n")
        for path in folder.glob("*.en")
    }
    plain = texts.pop("plain")
    tokenizer = Tokenizer.train(plain, 1000, split_digits=True)
    expected = tokenizer.encode(plain)
    for change, lines in texts.items():
        assert tokenizer.encode(lines) == expected, change
