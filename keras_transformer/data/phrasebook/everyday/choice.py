"""Choices that make sense: who does what to what, and where.

All draws come from `random.Random.random`, the one method that Python promises to keep
as it is, so a seed makes the same sentences in every version.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TypeGuard
from typing import TypeVar

from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.french_words import is_vowel
from keras_transformer.data.phrasebook.everyday.meaning import OWNERS
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pair
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.numbers import NUMBERS
from keras_transformer.data.phrasebook.everyday.words import Adjective
from keras_transformer.data.phrasebook.everyday.words import Noun
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

Item = TypeVar("Item")

PEOPLE = {"person", "adult", "young"}  # kinds that pronouns and names may be
SMALL = ("two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
MANY = {"food", "clothes", "text", "plant", "person", "animal", "gift", "question"}
MINE = ("my", "your", "our")  # owners that every sentence may name
SINGLE_OWNERS = {"husband": ("my", "your", "her"), "wife": ("my", "your", "his")}


class Draw:
    """A source of choices.

    Args:
        stream: where they come from.
    """

    def __init__(self, stream: random.Random) -> None:
        self._stream = stream

    def chance(self, share: float) -> bool:
        """True in this share of all calls."""
        return self._stream.random() < share

    def one(self, items: Sequence[Item]) -> Item:
        """One of the items, all equally likely."""
        return items[int(self._stream.random() * len(items))]

    def weighted(self, weights: Mapping[Item, float]) -> Item:
        """One of the keys, as likely as its weight."""
        remaining = self._stream.random() * sum(weights.values())
        for item, weight in weights.items():
            remaining -= weight
            if remaining < 0:
                return item
        return item

    def first(self, make: Callable[[], Item], fits: Callable[[Item], bool]) -> Item:
        """The first of the items made that fits."""
        while not fits(item := make()):
            pass
        return item


# === Who ===


def someone(draw: Draw, kinds: Iterable[str], pronouns: Sequence[str] = ()) -> Nominal:
    """A subject of these kinds.

    Args:
        draw: the source of choices.
        kinds: kinds of nouns.
        pronouns: the pronouns that may stand for people; "they" is not among them where
            German cannot tell it from "you", at the beginning of a sentence.
    """
    people = bool(PEOPLE & set(kinds))
    if people and pronouns and draw.chance(0.42):
        return Pronoun(draw.one(pronouns))
    if people and draw.chance(0.15):
        return name(draw)
    if people and draw.chance(0.05):
        return Pair(name(draw, "female"), name(draw, "male"))
    return creature(draw, kinds)


def name(draw: Draw, sex: str = "") -> Name:
    """Somebody by name."""
    names = [each for each in lexicon.phrases("names") if not sex or sex in each.kinds]
    return Name(draw.one(names))


def creature(draw: Draw, kinds: Iterable[str]) -> NounPhrase:
    """A noun phrase as a subject: the dog, my mother, two children."""
    noun = draw.one(lexicon.of_kind(kinds))
    return subject_phrase(draw, noun)


def subject_phrase(draw: Draw, noun: Noun) -> NounPhrase:
    """A noun with what may stand before it in a subject."""
    if "kin" in noun.kinds and (noun.english != "child" or draw.chance(0.3)):
        owners = SINGLE_OWNERS.get(noun.english, MINE)
        owner = draw.one([each for each in owners if each in MINE])
        many = "sibling" in noun.kinds and draw.chance(0.1)
        return NounPhrase(noun, owner, many or "many" in noun.kinds)
    if noun.mass or {"sky", "one"} & noun.kinds:
        return NounPhrase(noun, "the")
    weights = {"the": 6.0, "a": 3.0, "this": 0.8, "many": 0.3, "number": 0.7}
    weights |= {"plural": 1.6}
    if {"mine", "pet", "owned"} & noun.kinds:
        weights |= {"mine": 3.0}
    determiner = draw.weighted(weights)
    adjective = some_adjective(draw, noun) if draw.chance(0.12) else None
    if determiner == "plural":
        return NounPhrase(noun, "the", True, adjective)
    if determiner == "number":
        return NounPhrase(noun, draw.one(SMALL[:4]), True, adjective)
    if determiner == "mine":
        return NounPhrase(noun, draw.one(MINE), draw.chance(0.15), adjective)
    return NounPhrase(noun, determiner, determiner == "many", adjective)


# === What ===


def something(
    draw: Draw, verb: Verb, subject: Nominal, pronouns: bool = False
) -> Nominal:
    """An object of a verb.

    Args:
        draw: the source of choices.
        verb: whose object it is.
        subject: the subject, which owns what is "his", and is not the object itself.
        pronouns: whether a pronoun will do.
    """
    if pronouns and "person" in verb.objects and draw.chance(0.35):
        people = map(Pronoun, ("I", "you", "he", "she", "we", "they"))
        clear = [each for each in people if is_clear(each, verb, subject)]
        if clear:
            return draw.one(clear)
    if "person" in verb.objects and draw.chance(0.2):
        return draw.first(lambda: name(draw), lambda each: each != subject)
    nouns = lexicon.of_kind(verb.objects)
    return draw.first(
        lambda: object_phrase(draw, draw.one(nouns), verb, subject),
        lambda phrase: (
            phrase.noun not in nouns_of(subject) and not _is_too_young(subject, phrase)
        ),
    )


def _is_too_young(owner: Nominal, thing: NounPhrase) -> bool:
    """Whether this would be the son or daughter of a child."""
    is_owned = thing.determiner in ("a", "his", "her", "their", *SMALL)
    return (
        is_owned
        and bool({"son", "daughter", "child"} & thing.noun.kinds)
        and any("adult" not in noun.kinds for noun in nouns_of(owner))
    )


def is_clear(pronoun: Pronoun, verb: Verb, subject: Nominal) -> bool:
    """Whether each of the three languages shows who an object is.

    German has one word for her and them, French one for him and her before a vowel and
    to him and to her.
    """
    singular = {"we": "I"}
    person, subject_person = pronoun.person, person_of(subject)
    if verb.german.preposition or verb.french.preposition not in ("", "à"):
        return False
    if singular.get(person, person) == singular.get(subject_person, subject_person):
        return False
    if person == "they":
        return verb.german.case == "dat"
    if person in ("he", "she"):
        return not verb.french.preposition and not is_vowel(verb.french.infinitive)
    return True


def object_phrase(draw: Draw, noun: Noun, verb: Verb, subject: Nominal) -> NounPhrase:
    """A noun with what may stand before it in an object."""
    if "generic" in verb.flags and "sky" not in noun.kinds:
        return NounPhrase(noun, "generic", not noun.mass)
    if {"sky", "one"} & noun.kinds:
        return NounPhrase(noun, "the")
    possessive = OWNERS.get(person_of(subject))
    owners = [*MINE, possessive or "my"]
    if possessive and "own" in verb.flags:
        owners = [possessive]
    if "kin" in noun.kinds and (noun.english != "child" or "own" in verb.flags):
        return _kin(draw, noun, verb, owners)
    if noun.mass:
        return _mass(draw, noun, bool(PEOPLE & verb.subjects))
    weights = {"the": 4.0, "a": 4.0, "plural": 1.2, "number": 0.8, "this": 0.8}
    weights |= {"many": 0.2}
    if not MANY & noun.kinds:
        weights = {"the": 4.0, "a": 3.0, "this": 0.8}
    mine = {"mine", "pet", "owned", "lost", "clothes", "machine"} & noun.kinds
    if mine and verb.english != "have":  # nobody has what is theirs
        weights |= {"mine": 2.5}
    pair = "pair" in noun.kinds
    if "ride" in noun.kinds and verb.english != "see":
        weights = {"the": 2.0, "a": 1.0}
    determiner = draw.weighted(weights)
    # What is opened is not said to be open.
    changed = verb.english in ("open", "close", "clean", "wash")
    plain = changed or "give" in verb.flags or not draw.chance(0.18)
    adjective = None if plain else some_adjective(draw, noun)
    if determiner == "plural":
        return NounPhrase(noun, "a", True, adjective)
    if determiner == "number":
        return NounPhrase(noun, draw.one(SMALL), True, adjective)
    if determiner == "mine":
        many = pair or draw.chance(0.1)
        return NounPhrase(noun, draw.one(owners), many, adjective)
    return NounPhrase(noun, determiner, pair or determiner == "many", adjective)


def _kin(draw: Draw, noun: Noun, verb: Verb, owners: list[str]) -> NounPhrase:
    if verb.english == "have":
        many = draw.chance(0.5)
        return NounPhrase(noun, draw.one(SMALL[:3]) if many else "a", many)
    fit = SINGLE_OWNERS.get(noun.english, owners)
    possible = [each for each in owners if each in fit]
    if not possible:  # nobody says "our wife"
        return _kin(draw, lexicon.noun("friend"), verb, owners)
    return NounPhrase(noun, draw.one(possible), "many" in noun.kinds)


def _mass(draw: Draw, noun: Noun, people: bool) -> NounPhrase:
    if people and "drink" in noun.kinds and draw.chance(0.35):
        hot = noun.english in ("coffee", "tea")
        vessel = draw.one(lexicon.of_kind(["hot" if hot else "cold"]))
        many = draw.chance(0.3)
        number = draw.one(SMALL[:3]) if many else "a"
        return NounPhrase(noun, number, many, vessel=vessel)
    return NounPhrase(noun, "the" if draw.chance(0.25) else "a")


def some_adjective(draw: Draw, noun: Noun) -> Adjective | None:
    """An adjective before this noun, or None."""
    fit = [each for each in _fitting(noun.kinds) if not each.predicate_only]
    return draw.one(fit) if fit else None


def _fitting(kinds: Iterable[str]) -> list[Adjective]:
    """Adjectives that suit these kinds; a boy is young, and need not be said to be."""
    ages = ("young", "old") if "person" in kinds and "young" in kinds else ()
    return [
        each
        for each in lexicon.adjectives()
        if each.kinds & set(kinds) and each.english not in ages
    ]


def quality(draw: Draw, subject: Nominal) -> Adjective:
    """An adjective that says what the subject is."""
    kinds = {"person", "mood"}
    if isinstance(subject, NounPhrase):
        kinds = set(subject.noun.kinds)
    return draw.one(_fitting(kinds))


def nouns_of(nominal: Nominal | None) -> set[Noun]:
    """The nouns in a phrase."""
    if isinstance(nominal, Pair):
        return nouns_of(nominal.first) | nouns_of(nominal.second)
    return {nominal.noun} if isinstance(nominal, NounPhrase) else set()


def is_known(nominal: Nominal) -> bool:
    """Whether it is clear who is meant: the dog, my dog; not a dog, many dogs."""
    determiners = ("the", "this", "whose", *MINE)
    return not isinstance(nominal, NounPhrase) or nominal.determiner in determiners


def owned_by(nominal: Nominal | None, *owners: str) -> TypeGuard[NounPhrase]:
    """Whether it has one of these possessives."""
    return isinstance(nominal, NounPhrase) and nominal.determiner in owners


# === How, where and when ===


def place(draw: Draw, verb: Verb) -> Phrase:
    """Where, or where to, it may happen."""
    fit = [each for each in lexicon.phrases("places") if each.kinds & verb.places]
    return draw.one(fit)


def time(draw: Draw, tense: str, hour: bool = True) -> Phrase:
    """When something of this tense may happen; at an hour or not."""
    fit = [each for each in lexicon.phrases("times") if tense in each.kinds]
    if tense != "hour" and (not hour or draw.chance(0.7)):  # the clock's hours are many
        fit = [each for each in fit if "hour" not in each.kinds]
    return draw.one(fit)


def manner(draw: Draw, verb: Verb) -> Phrase | None:
    """How it may be done, or None."""
    fit = [each for each in lexicon.phrases("adverbs") if verb.english in each.kinds]
    return draw.one(fit) if fit else None


def often(draw: Draw) -> Phrase:
    """How often."""
    return draw.one([p for p in lexicon.phrases("adverbs") if "often" in p.kinds])


NUMBER_WORDS = tuple(NUMBERS)
