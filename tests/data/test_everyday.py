"""The everyday grammar is deterministic, unambiguous and right in what it agrees."""

import collections
import random
import re

import pytest
from everyday_forms import english_forms
from everyday_forms import french_forms
from everyday_forms import german_forms

from keras_transformer.data.phrasebook import everyday
from keras_transformer.data.phrasebook.everyday import german_words
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.marks import split_of

pytestmark = pytest.mark.no_backend

WORD = re.compile(r"[^\W\d_]+")
COUNT = 12_000
FEATURES = 10
LANGUAGES = ("English", "German", "French")


@pytest.fixture(scope="module")
def sample():
    stream = random.Random("test")
    return [everyday.generate(stream) for _ in range(COUNT)]


def test_a_seed_always_makes_the_same_sentences():
    first, again = (
        [sentence.texts for sentence in everyday.sentences(7, 200)] for _ in range(2)
    )
    assert first == again
    assert first != [sentence.texts for sentence in everyday.sentences(8, 200)]


@pytest.mark.parametrize("kind", everyday.KINDS)
def test_every_kind_can_be_asked_for(kind):
    stream = random.Random(kind)
    sentences = [everyday.generate(stream, kind) for _ in range(30)]
    assert {sentence.kind for sentence in sentences} == {kind}
    assert len({sentence.texts for sentence in sentences}) > 15


def test_at_least_half_of_the_sentences_are_short(sample):
    lengths = [len(sentence.texts[0].split()) for sentence in sample]
    assert sum(length <= 8 for length in lengths) > len(lengths) / 2


@pytest.mark.parametrize("source", range(3), ids=LANGUAGES)
def test_a_sentence_has_one_translation_from_every_language(sample, source):
    translations = collections.defaultdict(set)
    for sentence in sample:
        translations[sentence.texts[source]].add(sentence.texts)
    ambiguous = {text: found for text, found in translations.items() if len(found) > 1}
    # French says "Bonjour" for good morning and for hello.
    greeting = re.compile(r"Bonjour(, \w+)?\u202f!")
    assert not {text for text in ambiguous if not greeting.fullmatch(text)}


def test_sentences_are_clean(sample):
    for sentence in sample:
        for text in sentence.texts:
            assert not re.search(r"  | [.,]|,,|^ | $", text), text
            assert re.fullmatch(r"[A-ZÄÖÜÀÉÊ].*[.?!]", text), text
        assert not re.search(r" [?!]", sentence.texts[2]), sentence.texts[2]


def test_french_loses_its_vowels_and_articles_contract(sample):
    vowel = "[aeiouyâàéèêîôûœAEIOUÉÀÔ]"
    for sentence in sample:
        text = sentence.texts[2]
        assert not re.search(rf"\b(je|me|se|ne|de|le|que) (?!yaourt|onze){vowel}", text)
        assert not re.search(r"\b(à|(?<!train )de) (le|les) ", text), text


# === Splits ===


def test_a_held_out_pair_of_words_is_never_seen_in_training(sample):
    marks = collections.defaultdict(list)
    for each in sample:
        marks[split_of(each.marks)].append(set(each.marks))
    seen = {split: set().union(*found) for split, found in marks.items()}
    assert all(found - seen["train"] for found in marks["test"])
    assert all(found - seen["train"] for found in marks["validation"])
    held_out = {mark for mark in seen["test"] if split_of((mark,)) == "test"}
    assert not held_out & (seen["train"] | seen["validation"])
    assert min(len(marks[split]) for split in ("train", "test", "validation")) > 100
    drawn = everyday.sentences("a split", 20, "validation")
    assert {split_of(each.marks) for each in drawn} == {"validation"}


def test_words_of_held_out_pairs_are_seen_in_training(sample):
    words = collections.Counter()
    for each in sample:
        if split_of(each.marks) == "train":
            words.update(WORD.findall(each.texts[0].lower()))
    for each in everyday.sentences("test", 100, "test"):
        for word in WORD.findall(each.texts[0].lower()):
            assert words[word], word


# === The hundred ===


def test_ten_sentences_try_each_feature():
    counts = collections.Counter(trial.feature for trial in everyday.trial())
    assert len(counts) == FEATURES
    assert set(counts.values()) == {10}
    assert all(len(trial.english.split()) <= 8 for trial in everyday.trial())


def test_no_sentence_of_the_trial_is_generated():
    kept = {trial.english for trial in everyday.trial()}
    found = {sentence.texts[0] for sentence in everyday.sentences("trial", 5000)}
    assert not kept & found


def test_what_the_grammar_says_of_the_trial_is_accepted(sample):
    """Of what came up in a sample, which excludes nothing."""
    trials = {trial.english: trial for trial in everyday.trial()}
    met = set()
    for english, german, french in (sentence.texts for sentence in sample):
        if english in trials:
            met.add(english)
            assert german in trials[english].german
            assert french in trials[english].french
    assert len(met) >= 3


def test_every_word_of_the_trial_is_of_the_lexicon(sample):
    for index, forms in enumerate((english_forms, german_forms, french_forms)):
        texts = [*forms(), *(sentence.texts[index] for sentence in sample)]
        known = {word for text in texts for word in WORD.findall(text.lower())}
        for trial in everyday.trial():
            for language, text in trial.all_texts():
                if language == index:
                    assert {*WORD.findall(text.lower())} <= known, text


# === Forms that rules could get wrong ===


@pytest.mark.parametrize(
    ("english", "case", "plural", "form"),
    [
        ("boy", "acc", False, "Jungen"),
        ("child", "dat", True, "Kindern"),
        ("car", "dat", True, "Autos"),
        ("woman", "dat", True, "Frauen"),
        ("neighbor", "nom", False, "Nachbar"),
    ],
)
def test_german_nouns_are_declined(english, case, plural, form):
    assert german_words.noun_form(lexicon.noun(english), case, plural) == form


@pytest.mark.parametrize(
    ("determiner", "case", "gender", "ending"),
    [
        ("the", "nom", "m", "e"),
        ("the", "nom", "p", "en"),
        ("a", "nom", "m", "er"),
        ("a", "nom", "n", "es"),
        ("my", "acc", "m", "en"),
        ("my", "nom", "p", "en"),
        ("", "nom", "p", "e"),
        ("", "dat", "f", "er"),
        ("two", "acc", "p", "e"),
    ],
)
def test_german_adjectives_end_as_their_article_asks(determiner, case, gender, ending):
    assert german_words.adjective_ending(determiner, case, gender) == ending
