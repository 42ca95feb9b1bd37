"""Clauses about what somebody is, and where, about prices and the weather."""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import english
from keras_transformer.data.phrasebook.everyday import french
from keras_transformer.data.phrasebook.everyday import french_words
from keras_transformer.data.phrasebook.everyday import german
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import AGE
from keras_transformer.data.phrasebook.everyday.clauses import BE
from keras_transformer.data.phrasebook.everyday.clauses import COST
from keras_transformer.data.phrasebook.everyday.clauses import FIRST
from keras_transformer.data.phrasebook.everyday.clauses import WEATHER
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Comparison
from keras_transformer.data.phrasebook.everyday.meaning import Measure
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Qualities
from keras_transformer.data.phrasebook.everyday.meaning import Role
from keras_transformer.data.phrasebook.everyday.words import Adjective
from keras_transformer.data.phrasebook.everyday.words import Phrase


def being(draw: Draw, tense: str = "present", subject: Nominal | None = None) -> Clause:
    """Somebody or something is such and such."""
    subject = subject or draw.first(lambda: _described(draw), choice.is_known)
    first = choice.quality(draw, subject)
    has_two = draw.chance(0.15)
    second = choice.quality(draw, subject) if has_two else first
    adjective = subject.adjective if isinstance(subject, NounPhrase) else None
    if (
        isinstance(subject, NounPhrase)
        and adjective
        and not (  # no red car is blue
            go_together(adjective, first) and go_together(adjective, second)
        )
    ):
        return being(draw, tense, dataclasses.replace(subject, adjective=None))
    qualities = (first, second) if go_together(first, second) else (first,)
    fixed = first.french_fixed or first.english in WHOLE
    very = len(qualities) == 1 and not fixed and _is_graded(first) and draw.chance(0.25)
    clause = Clause(subject, BE, tense, predicate=Qualities(qualities, very))
    if tense in ("past", "present") and "mood" in first.kinds and draw.chance(0.3):
        word = {"past": "was", "present": "be"}[tense]
        time = choice.time(draw, word)
        return dataclasses.replace(clause, time=time, time_first=draw.chance(0.4))
    return clause


WHOLE = ("new", "broken", "open", "closed", "free")  # nothing is so very much
UNGRADED = ("ready", "empty", "full", "round", "ripe", "late", "red", "blue", "green")
UNGRADED += ("white", "black", "yellow", "brown")
OPPOSITES = {("old", "young"), ("old", "new"), ("happy", "sad"), ("rich", "poor")}
OPPOSITES |= {("strong", "weak"), ("big", "small"), ("long", "short"), ("hot", "cold")}
OPPOSITES |= {("heavy", "light"), ("clean", "dirty"), ("empty", "full")}
OPPOSITES |= {("difficult", "easy"), ("fast", "slow"), ("open", "closed")}
OPPOSITES |= {("good", "bad"), ("tall", "small"), ("old", "modern"), ("new", "modern")}
OPPOSITES |= {("cold", "fresh"), ("broken", "new"), ("old", "fresh"), ("funny", "sad")}


def _is_graded(adjective: Adjective) -> bool:
    return adjective.english not in UNGRADED


def go_together(first: Adjective, second: Adjective) -> bool:
    """Whether one may say both of the same."""
    names = (first.english, second.english)
    if first is second or names in OPPOSITES or names[::-1] in OPPOSITES:
        return False
    if ("mood" in first.kinds) != ("mood" in second.kinds):
        return False
    return _is_graded(first) and _is_graded(second)


def _described(draw: Draw) -> Nominal:
    if draw.chance(0.3):
        return choice.someone(draw, ["person"], FIRST)
    described = set().union(*(each.kinds for each in lexicon.adjectives())) - {"mood"}
    nouns = [each for each in lexicon.of_kind(described) if "role" not in each.kinds]
    return choice.subject_phrase(draw, draw.one(nouns))


def single(nominal: Nominal) -> Nominal:
    """The same, but one; parents stay two."""
    if isinstance(nominal, NounPhrase) and "many" not in nominal.noun.kinds:
        return dataclasses.replace(nominal, plural=False)
    return nominal


COMPARED = ("old", "young", "tall", "big", "small", "strong", "rich", "fast", "slow")
COMPARED += ("long", "expensive", "heavy", "beautiful", "famous", "interesting", "good")
COMPARED += ("friendly", "polite", "important", "modern")


def comparison(draw: Draw) -> Clause:
    """Somebody or something is more so than another."""
    adjective = draw.one([a for a in lexicon.adjectives() if a.english in COMPARED])
    kind = draw.one(sorted(adjective.kinds))
    nouns = [each for each in lexicon.of_kind([kind]) if not each.mass]
    if len(nouns) < 3:
        return comparison(draw)

    def candidate() -> Nominal:
        if kind == "person" and draw.chance(0.4):
            return choice.name(draw) if draw.chance(0.6) else Pronoun(draw.one(FIRST))
        return draw.first(
            lambda: choice.subject_phrase(draw, draw.one(nouns)),
            lambda phrase: (
                phrase.determiner in ("the", "this", *choice.MINE)
                and phrase.adjective is None
            ),
        )

    subject = single(candidate())
    other = draw.first(
        lambda: single(candidate()),
        lambda each: (
            each != subject
            and (
                not choice.nouns_of(each)
                or choice.nouns_of(each) != choice.nouns_of(subject)
            )
        ),
    )
    return Clause(subject, BE, predicate=Comparison(adjective, other))


def role(draw: Draw) -> Clause:
    """Somebody is a teacher."""
    noun = draw.one(lexicon.of_kind(["role"]))
    sex = "female" if "female" in noun.kinds else "male"
    kin = [
        n for n in lexicon.of_kind(["kin"]) if sex in n.kinds and "many" not in n.kinds
    ]
    if draw.chance(0.4):
        subject: Nominal = choice.name(draw, sex)
    elif draw.chance(0.5):
        subject = draw.first(
            lambda: choice.subject_phrase(draw, draw.one(kin)), lambda p: not p.plural
        )
    else:
        people = ("she",) if sex == "female" else ("I", "he", "you")
        subject = Pronoun(draw.one(people))
    return Clause(subject, BE, predicate=Role(noun))


def age(draw: Draw) -> Clause:
    """Somebody is ten years old."""
    subject = choice.someone(draw, ["person", "pet"], FIRST)
    grown = isinstance(subject, Pronoun | Name)
    if isinstance(subject, NounPhrase):
        grown = "adult" in subject.noun.kinds
    first = choice.NUMBER_WORDS.index("twenty")
    numbers = choice.NUMBER_WORDS[first:] if grown else choice.NUMBER_WORDS[:first]
    number = draw.one(numbers)
    return Clause(subject, AGE, predicate=Measure(number, "years"))


def price(draw: Draw) -> Clause:
    """Something costs ten euros."""
    noun = draw.one(lexicon.of_kind(["clothes", "gift", "ticket", "lamp", "bag"]))
    subject = draw.first(
        lambda: choice.subject_phrase(draw, noun),
        lambda phrase: (
            phrase.determiner in ("the", "this", "a")
            and not (phrase.plural and phrase.determiner == "a")
        ),
    )
    if "pair" in noun.kinds:
        subject = NounPhrase(noun, "this" if draw.chance(0.3) else "the", True)
    number = draw.one(choice.NUMBER_WORDS)
    return Clause(subject, COST, predicate=Measure(number, "euros"))


# === Where something is ===


def whereabouts(draw: Draw, existing: bool = False) -> Clause:
    """Something is somewhere; what exists there is not known yet."""
    relation = draw.one(lexicon.phrases("prepositions"))
    spots = lexicon.of_kind(kind[2:] for kind in relation.kinds if kind[:2] == "to")
    nouns = lexicon.of_kind(relation.kinds)
    noun = draw.one(nouns)
    spot = draw.first(lambda: draw.one(spots), lambda each: each is not noun)
    where = located(relation, NounPhrase(spot, "the"))
    if existing:
        number = draw.weighted({"a": 3.0, "two": 1.0, "three": 0.5})
        subject = NounPhrase(noun, number, number != "a")
    else:
        owner = draw.one(choice.MINE) if draw.chance(0.4) else "the"
        subject = NounPhrase(noun, owner)
    return Clause(subject, BE, place=where)


def located(relation: Phrase, spot: NounPhrase) -> Phrase:
    """A phrase with a preposition: on the table, auf dem Tisch, sur la table."""
    preposition, case = relation.german.split()
    return Phrase(
        f"{relation.english} {english.nominal(spot)}",
        german.prepositional(preposition, spot, case),
        french_words.prepositional(relation.french, french.nominal(spot)),
    )


def weather(draw: Draw, tense: str = "present") -> Clause:
    """It rains."""
    verb = lexicon.verb(draw.one(WEATHER))
    clause = Clause(Pronoun("it"), verb, tense)
    if draw.chance(0.6) and tense != "progressive":
        time = draw.first(
            lambda: choice.time(draw, tense),
            lambda each: verb.english == "rain" or each.english != "in summer",
        )
        return dataclasses.replace(clause, time=time, time_first=draw.chance(0.4))
    return clause
