"""The words of a sentence before they are inflected: phrases, nouns, verbs, adjectives.

Kinds restrict what goes with what: an animal eats food, and a table does not.
"""

from __future__ import annotations

import dataclasses


@dataclasses.dataclass(frozen=True)
class Phrase:
    """Words that never change, in each language: adverbs, names, places, times.

    Args:
        english: the words in English.
        german: the same in German.
        french: the same in French.
        kinds: where they fit.
    """

    english: str
    german: str
    french: str
    kinds: frozenset[str] = frozenset()

    @property
    def texts(self) -> tuple[str, str, str]:
        """English, German and French."""
        return self.english, self.german, self.french


@dataclasses.dataclass(frozen=True, eq=False)
class Noun:
    """A noun with its genders and plurals.

    Args:
        english: singular.
        english_plural: plural; empty where there is none.
        german: singular, without its article.
        german_gender: "m", "f" or "n".
        german_plural: plural; empty where there is none.
        german_weak: the form of the accusative and dative of a weak noun, or empty.
        french: singular, without its article.
        french_gender: "m" or "f".
        french_plural: plural; empty by the rule.
        kinds: what it is: "person", "food", ..., and its own English name.
    """

    english: str
    english_plural: str
    german: str
    german_gender: str
    german_plural: str
    german_weak: str
    french: str
    french_gender: str
    french_plural: str
    kinds: frozenset[str]

    @property
    def mass(self) -> bool:
        """Whether it is not counted: milk, music."""
        return "mass" in self.kinds


@dataclasses.dataclass(frozen=True)
class GermanVerb:
    """A German verb.

    Args:
        infinitive: without prefix.
        third: third person singular of the present.
        participle: past participle without prefix.
        auxiliary: "haben" or "sein".
        prefix: a separable prefix, or empty.
        reflexive: whether it goes with "sich".
        before: words before it, as in "Fußball spielen"; or empty.
        denied: the negative article of these words, as in "keinen Hunger"; or empty.
        preposition: of its object, or empty.
        case: "acc" or "dat", of its object.
    """

    infinitive: str
    third: str
    participle: str
    auxiliary: str
    prefix: str = ""
    reflexive: bool = False
    before: str = ""
    denied: str = ""
    preposition: str = ""
    case: str = "acc"


@dataclasses.dataclass(frozen=True)
class FrenchVerb:
    """A French verb.

    Args:
        infinitive: without pronoun and other words.
        reflexive: whether it goes with "se".
        after: words after it, as in "avoir faim"; or empty.
        preposition: "à", "de" or "avec" before its object; or empty.
    """

    infinitive: str
    reflexive: bool = False
    after: str = ""
    preposition: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Verb:
    """A verb with what it goes with.

    Args:
        english: base form.
        english_past: simple past.
        english_rest: words after it: "up", "for"; or empty.
        german: its German.
        french: its French.
        subjects: kinds of nouns that may do it.
        objects: kinds of nouns that it may be done to; empty without object.
        places: kinds of places where, or where to, it may happen.
        needs_place: whether one must be said.
        flags: "state": no progressive, modal or command; "point" and "free": no
            progressive; "chance": not meant; "once": not done often; "own": done to
            what is one's own; "owned": its subject is known; "generic": of all there is
            of a kind; "hour": said with a time; "give": with a recipient; "ask": makes
            a good command; "like": one may like to do it.
    """

    english: str
    english_past: str
    english_rest: str
    german: GermanVerb
    french: FrenchVerb
    subjects: frozenset[str]
    objects: frozenset[str]
    places: frozenset[str]
    needs_place: bool
    flags: frozenset[str]

    @property
    def name(self) -> str:
        """English and German: what tells it from all other verbs."""
        return f"{self.english} {self.english_rest} {self.german.infinitive}"


@dataclasses.dataclass(frozen=True, eq=False)
class Adjective:
    """An adjective.

    Args:
        english: the positive.
        english_comparative: with "more" where it has no form of its own.
        german: the positive.
        german_stem: what endings are added to.
        german_comparative: the comparative.
        french: masculine.
        french_feminine: feminine.
        french_vowel: masculine before a vowel, as in "vieil ami".
        french_first: whether it stands before its noun.
        french_fixed: whether it never changes, as "en retard".
        kinds: kinds of nouns it suits.
        predicate_only: whether it never stands before a noun.
    """

    english: str
    english_comparative: str
    german: str
    german_stem: str
    german_comparative: str
    french: str
    french_feminine: str
    french_vowel: str
    french_first: bool
    french_fixed: bool
    kinds: frozenset[str]
    predicate_only: bool
