"""Lists of pieces and merges: files that load again, and files that are refused."""

import json
import pickle
from itertools import pairwise

import numpy as np
import pytest

from keras_transformer.data import listed_pieces
from keras_transformer.data.bpe_dropout import BPEDropout
from keras_transformer.data.listed_pieces import Rules
from keras_transformer.data.new_pieces import old_rows
from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.data.tokenizer_bounds import load_within_bounds
from keras_transformer.errors import InputError
from keras_transformer.translation.alignment import word_numbers

pytestmark = pytest.mark.no_backend

SPECIAL = ["<pad>", "<s>", "</s>", "<unk>"]
RULES = {"pad": 0, "start": 1, "end": 2, "unknown": 3, "symbols": (0, 1, 2, 3)}
#: The letters of "low", a space, and the two bytes of "ä".
PIECES = [*SPECIAL, "l", "o", "w", "Ġ", "Ã", "¤", "lo", "low", "Ġlow"]
MERGES = [("l", "o"), ("lo", "w"), ("Ġ", "low")]


def model(pieces=PIECES, merges=MERGES, **rules):
    rules = {"kind": "bytes", **RULES, **rules}
    return listed_pieces.serialized(pieces, merges, Rules(**rules))


@pytest.fixture(scope="module")
def tokenizer():
    return Tokenizer(model())


def test_text_is_cut_by_rank_and_comes_back(tokenizer):
    ids = tokenizer.encode(["low low", "lowä", "oolo x", ""])
    assert ids == [[11, 12], [11, 8, 9], [5, 5, 10, 7, 3], []]
    assert tokenizer.decode(ids[:2]) == ["low low", "lowä"]
    assert tokenizer.decode([[2, 11, 0, 8]]) == ["low\ufffd"]
    assert tokenizer.special_ids == {"pad_id": 0, "start_id": 1, "end_id": 2}
    assert tokenizer.unknown_id == 3
    assert tokenizer.ids_of(["low", "</s>", 4]) == [11, 2, 4]
    with pytest.raises(InputError, match="no piece 'slow'"):
        tokenizer.ids_of(["slow"])
    with pytest.raises(InputError, match="lone surrogate"):
        tokenizer.encode(["\ud800"])
    assert tokenizer.is_empty(" \t") and not tokenizer.is_empty(" low")


def test_merges_are_those_of_the_plain_algorithm():
    """Again and again the first merge of a word, at its leftmost place."""
    random = np.random.default_rng(2)
    pieces, merges = list("abc"), []
    for _ in range(12):
        pair = tuple(random.choice(pieces, 2).tolist())
        if "".join(pair) not in pieces:
            pieces.append("".join(pair))
            merges.append(pair)
    tokenizer = Tokenizer(model([*SPECIAL, *pieces], merges))
    for _ in range(50):
        letters = random.choice(list("abc"), 15).tolist()
        expected = list(letters)
        while found := [
            (merges.index(two), place)
            for place, two in enumerate(pairwise(expected))
            if two in merges
        ]:
            _, place = min(found)
            expected[place : place + 2] = ["".join(expected[place : place + 2])]
        ids = tokenizer.encode(["".join(letters)])[0]
        assert tokenizer.pieces(ids) == expected


def test_a_copy_of_a_file_or_a_process_is_the_same(tokenizer, tmp_path):
    tokenizer.save(tmp_path / "tokenizer.model")
    loaded = load_within_bounds(tmp_path, "tokenizer.model", len(PIECES))
    for other in (loaded, pickle.loads(pickle.dumps(tokenizer))):
        assert other.model == tokenizer.model
        assert other.encode(["low low"]) == tokenizer.encode(["low low"])


def test_spelling_is_ours_where_words_are_looked_for(tokenizer):
    ids = [11, 12, 7, 8, 9, 2]
    assert tokenizer.pieces(ids) == ["low", "Ġlow", "Ġ", "Ã", "¤", "</s>"]
    spelled = tokenizer.spelled(ids)
    assert spelled == ["low", "▁low", "▁", "<0xC3>", "<0xA4>", "</s>"]
    assert word_numbers(spelled[:-1]) == [0, 1, None, 2, 2]
    several = Tokenizer(model([*PIECES, "Ã¤l", "¤l"], MERGES)).spelled([13, 14])
    assert several == ["äl", "<0xA4><0x6C>"]
    assert word_numbers(["▁", "<0xC3>", "<0xA4><0x6C>"]) == [None, 0, 0]
    new = Tokenizer.train(["low low"] * 9, vocabulary_size=270)
    rows = dict(zip(new.pieces(range(270)), old_rows(tokenizer, new), strict=True))
    assert rows["▁low"] == [12]


def test_what_needs_scores_is_refused(tokenizer):
    with pytest.raises(InputError, match=r"set data\.bpe_dropout to 0"):
        BPEDropout(tokenizer, tokenizer, 0.1)


def test_targets_of_moses_are_put_together_again():
    pytest.importorskip("sacremoses")
    pieces = [*SPECIAL, "s</w>", "&apos;s</w>", "dog</w>", ",</w>", "a</w>", "&apos;s"]
    moses = Tokenizer(model(pieces, [], kind="moses", language="en"))
    assert moses.decode([[8, 6, 5, 7, 8, 2]]) == ["a dog's, a"]
    assert moses.encode(["A a， "]) == [[3, 8, 7]]
    lower = {"kind": "moses", "language": "en", "lowercase": True}
    assert Tokenizer(model(pieces, [], **lower)).encode(["A\u200b "]) == [[8]]
    assert moses.is_empty("\u200b ") and not moses.is_empty("a")


# === Files that may come from anybody ===


def header(**fields):
    first, _, rest = model().partition(b"\n")
    return json.dumps({**json.loads(first), **fields}).encode() + b"\n" + rest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (model()[:200], "cut off"),
        (model()[:-3], "cut off"),
        (model() + b"x y\n", "says 16"),
        (header()[:40] + b"[" * 90_000, "cut off"),
        (header(format_version=2), "format_version '2'.*update"),
        (header(pieces=10**12), "says 1000000000003"),
        (header(pieces=-1), "pieces '-1' is no whole number"),
        (header(merges=True), "merges 'True' is no whole number"),
        (header(pad=13), "pad '13' is no whole number below 13"),
        (header(symbols=[99]), "symbols '99' is no whole number below 13"),
        (header(symbols=None), "symbols are no list"),
        (header(kind="script"), "kind 'script'.*update"),
        (header(language="../../x"), r"language '\.\./\.\./x' is no code"),
        (model().replace(b"\nlo w\n", b"\nlow\n"), "merge 'low', no pair"),
        (model().replace(b"\nlo\n", b"\n\xff\n"), "cut off"),
        (model().replace(b"\nlo\n", b"\nlow\n"), "a piece twice"),
        (model().replace(b"\nlo\n", b"\n\n"), "an empty one"),
        (model() + b"\n" * 9**6, r"has \d+ lines, more than"),
    ],
)
def test_a_damaged_file_is_one_error(content, message, tmp_path):
    (tmp_path / "tokenizer.model").write_bytes(content)
    with pytest.raises(InputError, match=message) as error:
        load_within_bounds(tmp_path, "tokenizer.model", len(PIECES))
    assert "\n" not in str(error.value) and len(str(error.value)) < 500


def test_a_long_word_without_spaces_takes_no_long_time(tokenizer):
    """A rule that looked through the word for each merge would take minutes."""
    (ids,) = tokenizer.encode(["low" * 40_000])
    assert ids == [11] * 40_000
