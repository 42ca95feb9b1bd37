"""Sentences about what belongs to whom."""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import clauses
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import action
from keras_transformer.data.phrasebook.everyday.meaning import OWNERS
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import object_phrase
from keras_transformer.data.phrasebook.everyday.states import being
from keras_transformer.data.phrasebook.everyday.words import Phrase


def possession(draw: Draw) -> Sentence:
    """Anna's dog sleeps. The key belongs to my brother. This is my book."""
    part = draw.weighted({"have": 2, "whose": 3, "belong": 2, "this": 3, "his": 2})
    if part == "have":
        return Sentence(action(draw, fits=lambda verb: verb is clauses.HAVE))
    if part == "belong":
        return Sentence(action(draw, fits=lambda verb: verb.english == "belong"))
    if part == "his":
        return Sentence(_owned(draw))
    owner = choice.name(draw).phrase
    noun = draw.one(lexicon.of_kind(OWNABLE))
    if part == "this":
        return Sentence(_this(draw, owner))
    possession_of_name = NounPhrase(noun, "whose", owner=owner)
    if {"pet", "kin"} & noun.kinds and draw.chance(0.7):
        kind = "animal" if "pet" in noun.kinds else "person"
        clause = action(draw, fits=lambda verb: bool({kind} & verb.subjects))
        if isinstance(clause.object, NounPhrase | Pronoun):
            return possession(draw)
        return Sentence(dataclasses.replace(clause, subject=possession_of_name))
    return Sentence(being(draw, subject=possession_of_name))


OWNABLE = ("pet", "owned", "lost", "clothes", "sibling", "friend", "room")


def _owned(draw: Draw) -> Clause:
    """Somebody does something with what is theirs."""
    return draw.first(
        lambda: action(draw, fits=lambda verb: bool(verb.objects)),
        lambda each: choice.owned_by(each.object, "his", "her"),
    )


def _this(draw: Draw, owner: Phrase) -> Clause:
    determiner = draw.weighted({"my": 2, "your": 2, "our": 1, "whose": 2, "a": 2})
    kinds = OWNABLE if determiner != "a" else ("thing", "animal", "clothes", "building")
    noun = draw.one(lexicon.of_kind(kinds))
    if determiner == "a" and "only" in noun.kinds:
        determiner = "my"
    if determiner == "our" and "only" in noun.kinds:
        determiner = "your"
    many = draw.chance(0.2) and bool(noun.english_plural) and "only" not in noun.kinds
    words = ("these", "das", "ce") if many else ("this", "das", "ce")
    pronoun = Name(Phrase(*words, frozenset(["plural" if many else "male"])))
    thing = NounPhrase(
        noun, determiner, many, owner=owner if determiner == "whose" else None
    )
    denial = "not" if draw.chance(0.2) else ""
    return Clause(pronoun, clauses.BE, predicate=thing, negation=denial)


def of_them(draw: Draw) -> Clause:
    """They do something with what is theirs, which tells them from "you" in German."""
    clause = draw.first(
        lambda: action(draw, fits=lambda verb: bool(verb.objects), bare=True),
        lambda each: choice.owned_by(each.object, *choice.MINE),
    )
    thing = dataclasses.replace(object_phrase(clause), determiner=OWNERS["they"])
    if "only" in thing.noun.kinds:
        return of_them(draw)
    return dataclasses.replace(clause, subject=Pronoun("they"), object=thing)
