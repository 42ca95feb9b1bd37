"""All forms of the everyday grammar's lexicon, in each language."""

import itertools
import re

from keras_transformer.data.phrasebook.everyday import english
from keras_transformer.data.phrasebook.everyday import french_words
from keras_transformer.data.phrasebook.everyday import german_words
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.meaning import PERSONS
from keras_transformer.data.phrasebook.everyday.states import COMPARED

TABLES = ("adverbs", "names", "numbers", "openers", "phrases", "places", "times")
TABLES += ("prepositions",)
CASES = ("nom", "acc", "dat")
CASE_WORDS = re.compile(r" (acc|dat)\b")


def english_forms():
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


def french_forms():
    for noun in lexicon.nouns():
        yield from (noun.french, french_words.noun_form(noun, bool(noun.german_plural)))
    for verb in (verb.french for verb in lexicon.verbs()):
        yield from (verb.infinitive, verb.after)
        persons = ("it",) if verb.infinitive in IMPERSONAL else PERSONS
        participle = french_words.participle(verb.infinitive)
        yield participle
        if verb.infinitive in french_words.ETRE or verb.reflexive:
            for feminine, plural in itertools.product((False, True), repeat=2):
                yield french_words.agreeing(participle, feminine, plural)
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


IMPERSONAL = ("pleuvoir", "neiger")
