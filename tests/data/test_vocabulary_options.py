"""What the training of a tokenizer may be told about its vocabulary."""

import pytest

from keras_transformer.data.tokenizer import Tokenizer
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

TEXT = [
    "The quick brown fox jumps over the lazy dog.",
    "Der schnelle braune Fuchs springt über den faulen Hund.",
    "In 2017 there were 37000 entries, in 1984 none.",
] * 4


def test_rare_characters_are_spelled_in_bytes_below_full_coverage():
    text = ["The quick brown fox " * 9] * 9 + ["ß"]
    full = Tokenizer.train(text, 300)
    most = Tokenizer.train(text, 300, character_coverage=0.99)
    assert full.pieces(full.encode(["ß"])[0]) == ["ß"]
    assert most.pieces(most.encode(["ß"])[0]) == ["<0xC3>", "<0x9F>"]
    assert most.decode(most.encode(["ß fox"])) == ["ß fox"]


def test_user_defined_symbols_are_always_one_piece():
    symbols = ["%s", "{}", "\u00ad"]
    for normalization in ("whitespace", "identity", "nfkc", "nmt_nfkc"):
        tokenizer = Tokenizer.train(
            TEXT, 320, normalization=normalization, user_defined_symbols=symbols
        )
        line = "fox%sfox {}\u00ad{}"
        pieces = tokenizer.pieces(tokenizer.encode([line])[0])
        assert [piece for piece in pieces if piece in symbols] == [
            "%s",
            "{}",
            "\u00ad",
            "{}",
        ]
        assert tokenizer.decode(tokenizer.encode([line])) == [line]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"normalization": "nfc"}, "'nfc' is not one of whitespace, identity, nfkc"),
        ({"character_coverage": 0.9}, r"0\.9 must be between 0\.98 and 1"),
        ({"user_defined_symbols": "%s"}, "must be a list of strings, got '%s'"),
        ({"user_defined_symbols": ["a b"]}, "'a b' holds white space"),
        ({"user_defined_symbols": ["a", "a"]}, "'a' is repeated"),
        ({"user_defined_symbols": [""]}, "'' is not text"),
        ({"user_defined_symbols": ["<s>"]}, "'<s>' is the name of a special piece"),
        ({"user_defined_symbols": ["<0x41>"]}, "is the name of a special piece"),
    ],
)
def test_options_that_are_not_right_are_refused(options, message):
    with pytest.raises(InputError, match=message):
        Tokenizer.train(TEXT, 320, **options)


def test_split_digits():
    text = ["37000 37000 2017 2017"] * 9
    whole = Tokenizer.train(text, 272)
    split = Tokenizer.train(text, 266, split_digits=True)
    assert max(map(len, whole.pieces(range(4 + 256, 272)))) > 2
    assert split.pieces(split.encode(["37000"])[0]) == list("37000")
