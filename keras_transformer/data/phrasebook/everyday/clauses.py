"""Clauses about what somebody does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.words import FrenchVerb
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

FIRST = ("I", "you", "he", "she", "we")  # pronouns that may begin a sentence
ANYWHERE = (*FIRST, "they")  # "Sie schlafen" would be "you sleep", too
BE = lexicon.verb("be")
HAVE = lexicon.verb("have")
COST = lexicon.verb("cost")
AGE = dataclasses.replace(BE, french=FrenchVerb("avoir"))
GET = Verb(  # no verb of its own, after "want" and "would like"
    "",
    "",
    "",
    dataclasses.replace(HAVE.german, infinitive=""),
    FrenchVerb(""),
    frozenset(["person"]),
    frozenset(["food", "drink", "clothes", "gift", "bicycle", "car", "ticket", "dog"]),
    frozenset(),
    False,
    frozenset(),
)
WEATHER = ("rain", "snow")
WHO = Name(Phrase("who", "wer", "qui", frozenset(["asked", "male"])))

RARE = {"state", "once", "chance"}  # what one does not do every day

Fits = Callable[[Verb], bool]


def verbs_for(tense: str = "present", modal: str = "") -> list[Verb]:
    """The verbs that make sense in a tense or with a modal."""
    fit = [each for each in lexicon.verbs() if each.subjects - {"weather"}]
    if tense == "progressive":
        return [
            each for each in fit if not {"state", "point", "free", "hour"} & each.flags
        ]
    if modal:
        people = [each for each in fit if choice.PEOPLE & each.subjects]
        fit = [each for each in people if "state" not in each.flags]
        if modal != "can":
            fit = [each for each in fit if "chance" not in each.flags]
        return [each for each in fit if modal != "like" or "like" in each.flags]
    if tense != "present":
        return [
            each
            for each in fit
            if "state" not in each.flags or each.german.denied or each is HAVE
        ]
    return fit


def action(
    draw: Draw,
    tense: str = "present",
    modal: str = "",
    pronouns: tuple[str, ...] = FIRST,
    fits: Fits = lambda verb: True,
    bare: bool = False,
) -> Clause:
    """Somebody does something.

    Args:
        draw: the source of choices.
        tense: as of `Clause`.
        modal: as of `Clause`.
        pronouns: which may be the subject.
        fits: which verbs may be taken.
        bare: whether how, where and when are left out.
    """
    verb = draw.one([each for each in verbs_for(tense, modal) if fits(each)])
    subject = choice.someone(draw, doers(verb, modal), pronouns)
    if {"hour", "owned"} & verb.flags and isinstance(subject, NounPhrase):
        subject = dataclasses.replace(subject, determiner="the", plural=False)
    clause = Clause(subject, verb, tense, modal)
    clause = with_object(draw, clause)
    if verb.needs_place:
        clause = dataclasses.replace(clause, place=choice.place(draw, verb))
    if not shows_tense(clause):  # "I read" may be present or past
        return action(draw, tense, modal, pronouns, fits, bare)
    return clause if bare else with_adjunct(draw, clause)


def doers(verb: Verb, modal: str = "") -> frozenset[str]:
    """The kinds of those who may do it; only people may want to."""
    return verb.subjects & choice.PEOPLE or verb.subjects if modal else verb.subjects


def with_object(draw: Draw, clause: Clause) -> Clause:
    """The clause with an object and a recipient, as its verb asks for."""
    verb = clause.verb
    if not verb.objects:
        return clause
    thing = choice.something(draw, verb, clause.subject, pronouns=True)
    recipient = None
    if "give" in verb.flags:
        recipient = draw.first(
            lambda: _recipient(draw, clause.subject),
            lambda each: choice.nouns_of(each).isdisjoint(
                choice.nouns_of(clause.subject)
            ),
        )
    return dataclasses.replace(clause, object=thing, recipient=recipient)


def _recipient(draw: Draw, subject: Nominal) -> Nominal:
    if draw.chance(0.5):
        others = {"I": ("you", "they"), "you": ("I", "we", "they")}
        others |= {"we": ("you", "they"), "they": ("I", "you", "we")}
        return Pronoun(
            draw.one(others.get(person_of(subject), ("I", "you", "we", "they")))
        )
    if draw.chance(0.25):
        return draw.first(lambda: choice.name(draw), lambda each: each != subject)
    return draw.first(
        lambda: choice.creature(draw, ["person"]),
        lambda each: each.determiner in ("the", "a", *choice.MINE),
    )


def shows_tense(clause: Clause) -> bool:
    """Whether the English shows the tense: "I cut the bread" does not."""
    same = clause.verb.english == clause.verb.english_past
    third = person_of(clause.subject) in ("he", "she", "it")
    return third or not same or clause.tense not in ("past", "present")


def with_adjunct(draw: Draw, clause: Clause) -> Clause:
    """The clause with one of how, how often, where and when; or none."""
    verb, tense = clause.verb, clause.tense
    if "hour" in verb.flags:
        return dataclasses.replace(clause, time=choice.time(draw, "hour"))
    if clause.modal in ("can", "must", "want", "should") and tense != "past":
        tense = "modal"
    if clause.modal in ("like", "would like"):
        tense = "modal" if clause.modal == "would like" else "none"
    changes: dict[str, Any] = {}
    if tense == "present" and not RARE & verb.flags and draw.chance(0.18):
        changes["often"] = choice.often(draw)
    elif not clause.modal and tense in ("present", "future") and draw.chance(0.5):
        changes["manner"] = choice.manner(draw, verb) if not verb.objects else None
    elif tense == "past" and not verb.objects and draw.chance(0.4):
        how = choice.manner(draw, verb)
        short = how is not None and how.english in ("well", "badly")
        changes["manner"] = how if short else None
    alone = not changes.get("manner")
    if verb.places and not verb.needs_place and alone and draw.chance(0.4):
        changes["place"] = choice.place(draw, verb)
    timed = tense in ("past", "future", "modal") or (
        tense == "present" and not changes and not RARE & verb.flags
    )
    share = {"past": 0.4, "future": 0.5, "modal": 0.25}.get(tense, 0.25)
    if timed and alone and draw.chance(share):
        hour = not (verb.objects or "state" in verb.flags) or verb.english in (
            "eat",
            "meet",
            "call",
            "visit",
        )
        changes["time"] = choice.time(draw, tense, hour)
        soon = changes["time"].english == "soon"  # French has it not at the end
        changes["time_first"] = soon or draw.chance(0.4)
    return dataclasses.replace(clause, **changes)
