"""Questions: does he sleep, where do you live, which book do you read."""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import clauses
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday import states
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import action
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import object_phrase
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

ASKED = ("you", "you", "you", "he", "she", "they")
WHAT = Phrase("what", "was", "que")
WHO = Phrase("who", "wen", "qui")
WHERE = Phrase("where", "wo", "où")
WHERE_TO = Phrase("where", "wohin", "où")
WHEN = Phrase("when", "wann", "quand")
WHY = Phrase("why", "warum", "pourquoi")
WHERE_IS = Phrase("where", "wo", "où", frozenset(["inverted"]))
HOW_MUCH = Phrase("how much", "wie viel", "combien", frozenset(["inverted"]))
HOW_OLD = Phrase("how old", "wie alt", "quel âge", frozenset(["inverted"]))
TENSES = {"present": 6, "past": 3, "future": 2}


def yes_or_no(draw: Draw) -> Sentence:
    """Do you drink coffee? Is the shop open? Did she sleep?"""
    if draw.chance(0.3):
        clause = draw.first(
            lambda: states.being(draw),
            lambda each: person_of(each.subject) not in ("I", "we"),
        )
        return _asking(clause)
    tense, modal = draw.weighted(TENSES), ""
    if draw.chance(0.25):
        tense, modal = "present", draw.one(("can", "must", "want", "would like"))
    return _asking(action(draw, tense, modal, ASKED))


def with_word(draw: Draw) -> Sentence:
    """What do you eat? Where does Anna live? Who sleeps?"""
    makers = {
        _what: 4,
        _whom: 2,
        _who: 3,
        _where: 3,
        _when: 2,
        _why: 3,
        _where_is: 3,
        _how_many: 2,
        _which: 2,
        _how_much: 2,
        _how_old: 1,
    }
    return draw.weighted(makers)(draw)


def _asking(clause: Clause, asked: Phrase | NounPhrase | None = None) -> Sentence:
    """The question, its time at its end; what is asked about is known: the, my."""
    subject = clause.subject
    if isinstance(subject, NounPhrase) and not choice.is_known(subject):
        subject = dataclasses.replace(subject, determiner="the")
    often = clause.often
    if often and often.english in ("sometimes", "rarely"):
        often = None
    time = clause.time if clause.time and clause.time.english != "soon" else None
    clause = dataclasses.replace(
        clause, subject=subject, time=time, time_first=False, often=often
    )
    return Sentence(clause, "question", asked)


def _plain(verb: Verb) -> bool:
    """Whether its object may be asked for: direct in all languages."""
    whole = verb.english_rest or verb.german.preposition or verb.french.preposition
    return bool(verb.objects) and not whole and verb.german.case == "acc"


def _what(draw: Draw) -> Sentence:
    def fits(verb: Verb) -> bool:
        return (
            _plain(verb)
            and not {"person", "kin"} & verb.objects
            and not {"state", "own", "chance"} & verb.flags
        )

    clause = action(draw, _tense(draw), "", ASKED, fits)
    return _asking(dataclasses.replace(clause, object=None), WHAT)


def _whom(draw: Draw) -> Sentence:
    clause = action(
        draw, _tense(draw), "", ASKED, lambda v: _plain(v) and "person" in v.objects
    )
    return _asking(dataclasses.replace(clause, object=None), WHO)


def _who(draw: Draw) -> Sentence:
    clause = draw.first(
        lambda: action(draw, _tense(draw), fits=lambda v: "person" in v.subjects),
        lambda each: (
            person_of(each.subject) == "he" and not choice.owned_by(each.object, "his")
        ),
    )
    return _asking(dataclasses.replace(clause, subject=clauses.WHO))


def _where(draw: Draw) -> Sentence:
    def fits(verb: Verb) -> bool:
        # German and French ask alike where one goes and where one travels.
        return bool(verb.places) and verb.english != "travel"

    clause = action(draw, _tense(draw), "", ASKED, fits)
    to = {"to", "way"} & clause.verb.places
    clause = dataclasses.replace(clause, place=None)
    return _asking(clause, WHERE_TO if to else WHERE)


def _when(draw: Draw) -> Sentence:
    timed = ("open", "close", "begin", "arrive", "leave", "come", "get", "go", "eat")

    def fits(verb: Verb) -> bool:
        return verb.english in timed

    clause = action(draw, _tense(draw), "", ASKED, fits, bare=True)
    if clause.verb.objects:
        return _when(draw)
    return _asking(dataclasses.replace(clause, time=None), WHEN)


def _why(draw: Draw) -> Sentence:
    tense = draw.weighted(TENSES)
    clause = action(draw, tense, "", ASKED, lambda v: "hour" not in v.flags)
    return _asking(dataclasses.replace(clause, time=None), WHY)


def _where_is(draw: Draw) -> Sentence:
    nouns = lexicon.of_kind(["building", "lost", "thing", "pet", "sibling"])
    subject = draw.first(
        lambda: choice.subject_phrase(draw, draw.one(nouns)),
        lambda phrase: (
            phrase.determiner in ("the", *choice.MINE) and phrase.adjective is None
        ),
    )
    return _asking(Clause(subject, clauses.BE), WHERE_IS)


def _how_many(draw: Draw) -> Sentence:
    return _about(draw, "how many", True)


def _which(draw: Draw) -> Sentence:
    return _about(draw, "which", draw.chance(0.25))


COUNTED = ("eat", "buy", "sell", "see", "read", "write", "find", "have", "need")


def _about(draw: Draw, determiner: str, plural: bool) -> Sentence:
    names = COUNTED if determiner == "how many" else COUNTED[:-2]

    def fits(verb: Verb) -> bool:
        return verb.english in names and _plain(verb)

    clause = draw.first(
        lambda: action(draw, _tense(draw), "", ASKED, fits),
        lambda each: (
            isinstance(each.object, NounPhrase)
            and bool(each.object.noun.english_plural)
            and not {"only", "one"} & each.object.noun.kinds
        ),
    )
    asked = NounPhrase(object_phrase(clause).noun, determiner, plural)
    timed = clause.tense != "present" and clause.verb is not clauses.HAVE
    time = clause.time if timed else None
    clause = dataclasses.replace(
        clause, object=asked, place=None, often=None, time=time
    )
    return _asking(clause, asked)


def _how_much(draw: Draw) -> Sentence:
    clause = states.price(draw)
    subject = clause.subject
    if isinstance(subject, NounPhrase) and subject.determiner == "a":
        subject = dataclasses.replace(subject, determiner="the")
    return _asking(Clause(subject, clauses.COST), HOW_MUCH)


def _how_old(draw: Draw) -> Sentence:
    clause = draw.first(
        lambda: states.age(draw), lambda each: not isinstance(each.subject, Pronoun)
    )
    return _asking(dataclasses.replace(clause, predicate=None), HOW_OLD)


def _tense(draw: Draw) -> str:
    return draw.weighted(TENSES)
