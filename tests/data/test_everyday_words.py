"""Every word of the everyday grammar is one that a dictionary of its language knows."""

import itertools
import os
import re
import shutil
import subprocess

import pytest

from keras_transformer.data.phrasebook import everyday
from keras_transformer.data.phrasebook.everyday import english
from keras_transformer.data.phrasebook.everyday import french_words
from keras_transformer.data.phrasebook.everyday import german_words
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.clauses import COMPARED
from keras_transformer.data.phrasebook.everyday.meaning import PERSONS

pytestmark = [
    pytest.mark.no_backend,
    pytest.mark.skipif(
        shutil.which("hunspell") is None and os.environ.get("HUNSPELL") != "required",
        reason="needs hunspell with its dictionaries de_DE, en_US and fr_FR",
    ),
]

#: Right, but not in the German dictionary, which knows "schläft" and "Lächeln".
KNOWN = {"einschläft", "ferngesehen", "gelächelt"}
TABLES = ("adverbs", "names", "numbers", "phrases", "places", "prepositions", "times")
CASES = ("nom", "acc", "dat")
WORD = re.compile(r"[^\W\d_]+(?:[-'][^\W\d_]+)*")
CASE_WORDS = re.compile(r" (acc|dat)\b")


def english_words():
    for noun in lexicon.nouns():
        yield from (noun.english, noun.english_plural)
    for verb in lexicon.verbs():
        base = verb.english
        yield from (base, verb.english_past, verb.english_rest)
        if not verb.english_rest and base not in ("be", "have"):
            yield from (english.third_person(base), english.participle(base))
    for adjective in lexicon.adjectives():
        yield adjective.english
        if adjective.english in COMPARED:
            yield adjective.english_comparative
    for table in TABLES:
        yield from (phrase.english for phrase in lexicon.phrases(table))
    yield from (trial.english for trial in everyday.trial())


def german_forms():
    for noun, case in itertools.product(lexicon.nouns(), CASES):
        yield german_words.noun_form(noun, case, False)
        yield german_words.noun_form(noun, case, True)
    for verb in (verb.german for verb in lexicon.verbs()):
        yield from (german_words.infinitive(verb), german_words.past_participle(verb))
        yield from (verb.before, verb.denied, verb.preposition)
        yield from (german_words.present(verb, person) for person in PERSONS)
        if verb.prefix:  # the verb last: weil er abfährt
            yield from (
                verb.prefix + german_words.present(verb, person) for person in PERSONS
            )
    yield from itertools.chain(*german_words.IRREGULAR.values())
    for adjective in lexicon.adjectives():
        yield adjective.german
        yield from (
            adjective.german_stem + end for end in ("e", "er", "es", "en", "em")
        )
        if adjective.english in COMPARED:
            yield adjective.german_comparative
    for word in (*german_words.EIN_WORDS, *german_words.DER_WORDS):
        for case, gender in itertools.product(CASES, "mfnp"):
            if (word, gender) != ("a", "p") and (word, gender) != ("every", "p"):
                yield german_words.determiner(word, case, gender)
    for table in TABLES:
        for phrase in lexicon.phrases(table):
            yield CASE_WORDS.sub("", phrase.german)
    for trial in everyday.trial():
        yield from trial.german


def french_forms():
    for noun in lexicon.nouns():
        yield from (noun.french, french_words.noun_form(noun, bool(noun.german_plural)))
    for verb in (verb.french for verb in lexicon.verbs()):
        yield from (verb.infinitive, verb.after)
        persons = ("it",) if verb.infinitive in IMPERSONAL else PERSONS
        yield french_words.participle(verb.infinitive)
        for person in persons:
            yield french_words.present(verb.infinitive, person)
            yield french_words.future(verb.infinitive, person)
    for verb in ("pouvoir", "devoir", "vouloir", "être", "avoir"):
        for person in PERSONS:
            yield french_words.conditional(verb, person)
            yield french_words.imperfect(verb, person)
    for adjective in lexicon.adjectives():
        yield adjective.french_vowel
        for feminine, plural in itertools.product((False, True), repeat=2):
            yield french_words.adjective_form(adjective, feminine, plural)
    yield from itertools.chain(*french_words.ARTICLES.values())
    for table in TABLES:
        yield from (phrase.french for phrase in lexicon.phrases(table))
    for trial in everyday.trial():
        yield from trial.french


IMPERSONAL = ("pleuvoir", "neiger")


def unknown(dictionary, texts):
    """The words that are not in a dictionary."""
    words = sorted({word for text in texts for word in WORD.findall(text)})
    assert len(words) > 300
    done = subprocess.run(
        ["hunspell", "-l", "-i", "UTF-8", "-d", dictionary],
        input="\n".join(words),
        capture_output=True,
        encoding="utf-8",
        check=True,
    )
    return sorted({*done.stdout.split()} - KNOWN)


@pytest.mark.parametrize(
    ("dictionary", "texts"),
    [("en_US", english_words), ("de_DE", german_forms), ("fr_FR", french_forms)],
)
def test_every_form_of_the_lexicon_is_a_word(dictionary, texts):
    assert not unknown(dictionary, texts())


@pytest.mark.parametrize(
    ("index", "dictionary"), [(0, "en_US"), (1, "de_DE"), (2, "fr_FR")]
)
def test_every_word_of_many_sentences_is_a_word(index, dictionary):
    texts = [sentence.texts[index] for sentence in everyday.sentences("words", 4000)]
    assert not unknown(dictionary, texts)
