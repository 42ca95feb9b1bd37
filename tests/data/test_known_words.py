"""Words that a model has learned: what is one, and which the phrasebook teaches."""

import json
import time

import pydantic
import pytest

from keras_transformer.data import phrasebook
from keras_transformer.data.known_words import KNOWN_WORDS
from keras_transformer.data.known_words import KnownWords
from keras_transformer.data.phrasebook.vocabulary import known_words
from keras_transformer.errors import InputError

pytestmark = pytest.mark.no_backend

KNOWN = KnownWords(
    description="words",
    words={"the", "dog", "Haus", "'s", "l'", "qu'", "don't", "eau", "day", "well"},
    number_words={"ein", "und", "zwanzig", "hundert", "zwanzigste"},
    examples=["The dog.", "Das Haus."],
)


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("", []),
        ("The dog. the Dog? 'THE' dog!", ["THE"]),
        ("dog haus", []),
        ("cats, Cats; cats", ["cats", "Cats"]),
        ("12 3.5 14:30 9:30AM $5 5km 21st H-6414 LH-42 x² ½ 2026-11-26 – …", []),
        ("a 3-day well-day 3-night ten-day", ["3-night", "ten-day"]),
        ("x Y é", []),  # single letters
        ("the dog's, the dog\u2019s; the cat's", ["cat's"]),
        ("don't, won't, I'm", ["won't", "I'm"]),
        ("L'eau, l\u2019eau qu'l'eau l'air d'eau", ["l'air", "d'eau"]),
        ("einhundertundzwanzig Zwanzigste hundertste", ["hundertste"]),
        ("do\u00adg la\u0301 \ufeffdog 你好 हिन्दी", ["lá", "你好", "हिन्दी"]),
        ("dog_dog dog/cat@dog.dog", ["cat"]),
        ("' - '' -' 's -s 'dog' --dog", []),
    ],
)
def test_unknown_words_are_those_that_were_never_seen(text, unknown):
    assert KNOWN.unknown_in(text) == unknown


@pytest.mark.parametrize(
    "text",
    ["l'" * 30_000, "ein" * 20_000 + "x", "dog-" * 30_000, "'" * 60_000, "1-" * 30_000],
)
def test_long_words_take_no_long_time(text):
    start = time.process_time()
    KNOWN.unknown_in(text)
    assert time.process_time() - start < 5


@pytest.mark.parametrize("language", phrasebook.LANGUAGES)
def test_no_held_out_word_of_the_phrasebook_is_called_unknown(language):
    known = known_words(language)
    other = "fr" if language != "fr" else "de"
    for split in ("validation", "test"):
        sentences, _ = phrasebook.load(language, other, split)
        found = {one: known.unknown_in(one) for one in sentences}
        assert not {one: words for one, words in found.items() if words}
    assert len(known.words) > 400
    for example in known.examples:
        assert not known.unknown_in(example)
        assert example in phrasebook.load(language, other, "train")[0]


@pytest.mark.parametrize(
    ("language", "text", "unknown"),
    [
        ("en", "The HELICOPTER isn\u2019t ninety-nine", ["HELICOPTER", "isn't"]),
        ("de", "Neunhundertneunundneunzigtausendeinundzwanzig Kängurus", ["Kängurus"]),
        ("de", "der vierhundertsechsundachtzigste Hundertfünfer", ["Hundertfünfer"]),
        ("fr", "L'hélicoptère de quatre-vingt-dix-neuf", ["L'hélicoptère"]),
    ],
)
def test_numbers_in_words_are_known_and_other_words_are_not(language, text, unknown):
    assert known_words(language).unknown_in(text) == unknown


def test_a_list_says_how_many_words_there_are():
    assert KNOWN.summary == "10 words; other words it has not learned"
    assert KNOWN.info()["for example"] == "The dog.  Das Haus."
    assert KnownWords(description="w", words=()).info().keys() == {"knows"}


def test_a_list_is_read_as_it_was_written(tmp_path):
    (tmp_path / KNOWN_WORDS).write_text(KNOWN.to_json(), encoding="utf-8")
    assert KnownWords.load(tmp_path) == KNOWN
    assert KNOWN.to_json().splitlines()[-12:-2] == [
        *('"\'s",', '"Haus",', '"day",', '"dog",', '"don\'t",', '"eau",'),
        *('"l\'",', '"qu\'",', '"the",', '"well"'),
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"words": "dog"},
        {"words": [["dog"]]},
        {"words": [1]},
        {"words": None},
        {"number_words": {"a": 1}},
        {"description": "two\nlines"},
        {"description": ""},
        {"examples": ["one", "two\u2028lines"]},
    ],
)
def test_a_damaged_list_is_refused(changes, tmp_path):
    content = json.loads(KNOWN.to_json()) | changes
    with pytest.raises(pydantic.ValidationError):
        KnownWords(**content)
    (tmp_path / KNOWN_WORDS).write_text(json.dumps(content), encoding="utf-8")
    with pytest.raises(InputError, match=r"known_words\.json is damaged or not a list"):
        KnownWords.load(tmp_path)
