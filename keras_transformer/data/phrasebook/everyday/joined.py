"""Sentences of two clauses: joined by and, but, because, that, when or if."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import clauses
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday import states
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import action
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pair
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Qualities
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

MAIN = frozenset(["main"])  # after these, German has the verb second, not last
AND = Phrase("and", "und", "et", MAIN)
BUT = Phrase(", but", "aber", ", mais", MAIN)
BECAUSE = Phrase("because", "weil", "parce que")
THAT = Phrase("that", "dass", "que")
WHETHER = Phrase("if", "ob", "si")
WHILE = Phrase("while", "während", "pendant que")
WHEN = Phrase("when", "wenn", "quand")
IF = Phrase("if", "wenn", "si")

REASONS = {  # what makes somebody do what
    "tired": ("sleep", "rest", "sit down", "stay home", "go home", "fall asleep"),
    "sick": ("stay home", "rest", "go home"),
    "happy": ("laugh", "sing", "dance", "smile"),
    "sad": ("cry",),
    "nervous": ("smoke", "hurry"),
}
STATES = {
    "be hungry": ("eat", "cook", "go home", "go shopping"),
    "be thirsty": ("drink",),
}
THINKING = {
    name: lexicon.verb(name, german)
    for name, german in (
        ("know", "wissen"),
        ("think", "denken"),
        ("hope", "hoffen"),
        ("say", "sagen"),
    )
}
KNOWING = {  # verbs before "that", with the tenses of what follows
    "know": ("present", "past", "future"),
    "think": ("present",),
    "hope": ("future",),
    "say": ("present", "past", "future"),
}


def coordination(draw: Draw) -> Sentence:
    """I sleep and she works. The soup is hot, but it is good."""
    if draw.chance(0.3):
        return Sentence(_pair_of_people(draw))
    if draw.chance(0.4):
        return _contrast(draw)
    first, second = _two_actions(draw, is_plain)
    return Sentence(first, subordinate=second, conjunction=AND)


def _two_actions(draw: Draw, fits: Callable[[Clause], bool]) -> tuple[Clause, Clause]:
    """Two that fit, with other verbs, of other persons."""
    first = draw.first(lambda: action(draw, bare=True), fits)
    second = draw.first(
        lambda: action(draw, pronouns=clauses.ANYWHERE, bare=True),
        lambda each: (
            fits(each)
            and each.verb is not first.verb
            and person_of(each.subject) != person_of(first.subject)
        ),
    )
    return first, second


def is_plain(clause: Clause) -> bool:
    """Whether it says nothing but who does what, and nothing of his or hers."""
    return not {"hour", "state"} & clause.verb.flags and not (
        choice.owned_by(clause.object, "his") or choice.owned_by(clause.object, "her")
    )


def _pair_of_people(draw: Draw) -> Clause:
    clause = action(draw, fits=lambda verb: "person" in verb.subjects)
    if choice.owned_by(clause.object, "his", "her", "my", "our", "your") or isinstance(
        clause.object, Pronoun | Name
    ):
        return _pair_of_people(draw)
    women = choice.name(draw, "female"), choice.name(draw, "male")
    return dataclasses.replace(clause, subject=Pair(*women))


def _contrast(draw: Draw) -> Sentence:
    """Something is good in one way, but bad in another."""
    subject = draw.first(
        lambda: choice.subject_phrase(draw, draw.one(lexicon.of_kind(CONTRASTED))),
        lambda each: (
            each.determiner in ("the", "this", *choice.MINE)
            and not ("person" in each.noun.kinds and person_of(each) == "it")
        ),
    )
    subject = dataclasses.replace(subject, adjective=None)
    fit = [each for each in lexicon.adjectives() if each.kinds & subject.noun.kinds]
    good = [each for each in fit if each.english in GOOD]
    bad = [each for each in fit if each.english in BAD]
    if not good or not bad:
        return _contrast(draw)
    first, second = draw.one(good), draw.one(bad)
    if draw.chance(0.5):
        first, second = second, first
    if not states.go_together(first, second):
        return _contrast(draw)
    return Sentence(
        Clause(subject, clauses.BE, predicate=Qualities((first,))),
        subordinate=Clause(
            again_as(subject), clauses.BE, predicate=Qualities((second,))
        ),
        conjunction=BUT,
    )


CONTRASTED = ("building", "vehicle", "furniture", "machine", "text", "film", "ground")
CONTRASTED += ("clothes", "carried", "house", "song", "person", "pet")
GOOD = ("new", "beautiful", "good", "modern", "interesting", "clean", "fast", "big")
GOOD += ("light", "important", "easy", "happy", "strong", "rich", "friendly", "funny")
GOOD += ("intelligent", "polite", "young", "famous")
BAD = ("old", "small", "bad", "expensive", "slow", "dirty", "heavy", "broken", "closed")
BAD += ("difficult", "dangerous", "poor", "sick", "tired", "lazy", "sad", "weak")


def again_as(subject: Nominal) -> Pronoun:
    """The pronoun for what was named before."""
    person = person_of(subject)
    if person in ("it", "they") and isinstance(subject, NounPhrase):
        return Pronoun(person, subject.noun)
    return Pronoun(person)


def subordinate(draw: Draw) -> Sentence:
    """I know that she sleeps. When it rains, I stay home."""
    makers = {_because: 3, _that: 4, _whether: 2, _while: 2, _when: 2, _if: 2}
    return draw.weighted(makers)(draw)


def _because(draw: Draw) -> Sentence:
    reason = draw.one([*REASONS, *STATES])
    names = (REASONS | STATES)[reason]

    def fits(verb: Verb) -> bool:
        return f"{verb.english} {verb.english_rest}".strip() in names

    main = draw.first(
        lambda: action(draw, fits=fits, bare=True),
        lambda each: (
            person_of(each.subject) != "it" and not isinstance(each.subject, Pair)
        ),
    )
    subject = again_as(main.subject)
    if reason in STATES:
        second = Clause(subject, lexicon.verb(reason))
    else:
        qualities = Qualities((lexicon.adjective(reason),), draw.chance(0.2))
        second = Clause(subject, clauses.BE, predicate=qualities)
    return Sentence(main, subordinate=second, conjunction=BECAUSE)


def _that(draw: Draw) -> Sentence:
    name = draw.one(tuple(KNOWING))
    tense = draw.one(KNOWING[name])
    main = _thinking(draw, name)
    second = draw.first(
        lambda: _content(draw, tense, still=name != "hope"),
        lambda each: (
            _is_news(main, each)
            and not (name == "hope" and {"chance", "state"} & each.verb.flags)
        ),
    )
    return Sentence(main, subordinate=second, conjunction=THAT)


def _whether(draw: Draw) -> Sentence:
    main = dataclasses.replace(_thinking(draw, "know"), negation="not")
    second = draw.first(
        lambda: _content(draw, draw.one(("present", "past", "future"))),
        lambda each: _is_news(main, each),
    )
    return Sentence(main, subordinate=second, conjunction=WHETHER)


def _thinking(draw: Draw, name: str) -> Clause:
    people = ("she", "he") if name == "say" else ("I", "I", "we", "she", "he")
    subject = draw.first(
        lambda: choice.someone(draw, ["adult"], people),
        lambda each: (
            not isinstance(each, NounPhrase) or each.determiner in ("the", *choice.MINE)
        ),
    )
    return Clause(subject, THINKING[name])


def _is_news(main: Clause, second: Clause) -> bool:
    """Whether one may think it: not of oneself."""
    first = person_of(main.subject)
    us = ("I", "we")
    return second.subject != main.subject and not (
        first in us and person_of(second.subject) in us
    )


def _content(draw: Draw, tense: str, still: bool = True) -> Clause:
    if still and draw.chance(0.35):
        state = states.being(draw, tense if tense != "future" else "present")
        return dataclasses.replace(state, time_first=False)
    return draw.first(
        lambda: action(draw, tense, pronouns=clauses.ANYWHERE, bare=draw.chance(0.7)),
        lambda each: not each.time_first and not each.often,
    )


def _while(draw: Draw) -> Sentence:
    first, second = _two_actions(draw, _lasts)
    return Sentence(first, subordinate=second, conjunction=WHILE)


def _lasts(clause: Clause) -> bool:
    return is_plain(clause) and not {"point", "free"} & clause.verb.flags


def _when(draw: Draw) -> Sentence:
    return _condition(draw, WHEN, "present")


def _if(draw: Draw) -> Sentence:
    return _condition(draw, IF, "future")


PLANS = ("stay home", "rest", "read", "sleep", "watch TV", "go home", "listen to")
WET_PLANS = (*PLANS, "cook", "play cards", "work", "go shopping", "hurry")


def _condition(draw: Draw, joint: Phrase, tense: str) -> Sentence:
    """When it rains, or if somebody is tired: what is done then."""
    wet = draw.chance(0.5)
    plans = WET_PLANS if wet else PLANS

    def fits(verb: Verb) -> bool:
        return f"{verb.english} {verb.english_rest}".strip() in plans

    main = draw.first(
        lambda: action(draw, tense, fits=fits, bare=True),
        lambda each: (
            (wet or not isinstance(each.subject, Pair))
            and choice.is_known(each.subject)
        ),
    )
    if wet:
        second = states.weather(draw, "present")
        second = dataclasses.replace(second, time=None, time_first=False)
    else:
        feeling = lexicon.adjective(draw.one(("tired", "sick", "sad", "nervous")))
        subject, main = _named_first(main)
        second = Clause(subject, clauses.BE, predicate=Qualities((feeling,)))
    return Sentence(main, subordinate=second, conjunction=joint, subordinate_first=True)


def _named_first(main: Clause) -> tuple[Nominal, Clause]:
    """Who it is in the first clause, and the main clause with a pronoun."""
    if person_of(main.subject) == "it":
        return main.subject, main
    return main.subject, dataclasses.replace(main, subject=again_as(main.subject))
