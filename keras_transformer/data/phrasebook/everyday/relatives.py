"""Sentences with a relative clause: the man who sings."""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import clauses
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday import states
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import action
from keras_transformer.data.phrasebook.everyday.joined import is_plain
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Qualities
from keras_transformer.data.phrasebook.everyday.meaning import Relative
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import object_phrase
from keras_transformer.data.phrasebook.everyday.words import Verb


def relative(draw: Draw) -> Sentence:
    """The man who sings is happy. I see the dog that sleeps."""
    if draw.chance(0.5):
        antecedent = _antecedent(draw, draw.one(("person", "animal", "thing")))
        clause = states.being(draw, subject=antecedent)
        adjectives = ()
        if isinstance(clause.predicate, Qualities):
            adjectives = clause.predicate.adjectives[:1]
        return Sentence(Clause(antecedent, clauses.BE, predicate=Qualities(adjectives)))
    clause = draw.first(
        lambda: action(draw, fits=_takes_people, bare=True),
        lambda each: (
            isinstance(each.object, NounPhrase)
            and each.object.determiner in ("the", "a")
            and not each.object.noun.mass
        ),
    )
    phrase = NounPhrase(object_phrase(clause).noun, "the")
    thing = _with_relative(draw, phrase, clause.subject)
    if (
        thing is None
        or thing.relative is None
        or thing.relative.clause.verb is clause.verb
    ):
        return relative(draw)
    return Sentence(dataclasses.replace(clause, object=thing))


def _takes_people(verb: Verb) -> bool:
    return bool({"person", "animal", "thing", "clothes", "text"} & verb.objects) and (
        "give" not in verb.flags
    )


def _antecedent(draw: Draw, kind: str) -> NounPhrase:
    nouns = [
        each for each in lexicon.of_kind([kind]) if not {"only", "one"} & each.kinds
    ]
    noun = draw.one(nouns)
    many = draw.chance(0.25) and bool(noun.english_plural)
    phrase = NounPhrase(noun, "the", many)
    whole = None if "kin" in noun.kinds else _with_relative(draw, phrase, None)
    return whole or _antecedent(draw, kind)


def _with_relative(
    draw: Draw, phrase: NounPhrase, speaker: Nominal | None
) -> NounPhrase | None:
    """The phrase with a clause, whose subject or object it is."""
    kinds = phrase.noun.kinds
    alive = bool({"person", "animal"} & kinds)
    if alive and draw.chance(0.65):
        clause = action(draw, fits=lambda v: bool(kinds & v.subjects), bare=True)
        if is_plain(clause) and phrase.noun not in choice.nouns_of(clause.object):
            clause = dataclasses.replace(clause, subject=phrase)
            return dataclasses.replace(phrase, relative=Relative(clause, "subject"))
        return None
    tense = draw.one(("present", "past"))

    def fits(verb: Verb) -> bool:
        german, french = verb.german.preposition, verb.french.preposition
        return bool(kinds & verb.objects) and not (
            german or french or verb.english_rest or "give" in verb.flags
        )

    try:
        clause = action(draw, tense, fits=fits, bare=True)
    except IndexError:
        return None
    if phrase.noun in choice.nouns_of(clause.subject) or "generic" in clause.verb.flags:
        return None
    clause = dataclasses.replace(clause, object=phrase)
    if speaker is not None and clause.subject == speaker and alive:
        return None
    return dataclasses.replace(phrase, relative=Relative(clause, "object"))
