"""The meaning of a sentence, the same for all languages: what grammar starts from.

`english.py`, `german.py` and `french.py` each say a meaning in words. None of the
three sees the others' words, so what agrees in one language need not in another.
"""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday.words import Adjective
from keras_transformer.data.phrasebook.everyday.words import Noun
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

PERSONS = ("I", "you", "he", "she", "it", "we", "they")
OWNERS = {  # possessives by person
    "I": "my",
    "you": "your",
    "he": "his",
    "she": "her",
    "we": "our",
    "they": "their",
}


@dataclasses.dataclass(frozen=True)
class Pronoun:
    """A personal pronoun.

    Args:
        person: one of `PERSONS`; "you" is formal and one person, "they" is masculine.
        noun: what "it" or "they" stands for, if that was named.
    """

    person: str
    noun: Noun | None = None


@dataclasses.dataclass(frozen=True)
class Name:
    """Somebody's name, or who and nobody: a person in the singular.

    Args:
        phrase: the name in each language; its kinds say "female" or "male".
    """

    phrase: Phrase


@dataclasses.dataclass(frozen=True)
class NounPhrase:
    """A noun with what stands before and after it.

    Args:
        noun: the noun.
        determiner: "the", "a" (nothing for what is mass or many), "this", "every",
            "which", "generic" (all there is: I like dogs), a possessive, a number as a
            word, "many", "how many", or "whose" with `owner`.
        plural: whether it is many.
        adjective: before the noun.
        owner: "Anna" of "Anna's dog".
        relative: the clause after it.
        vessel: "cup" of "a cup of tea"; determiner and number are the cup's then.
    """

    noun: Noun
    determiner: str = "the"
    plural: bool = False
    adjective: Adjective | None = None
    owner: Phrase | None = None
    relative: Relative | None = None
    vessel: Noun | None = None

    @property
    def head(self) -> Noun:
        """The noun that the phrase agrees with."""
        return self.vessel or self.noun


@dataclasses.dataclass(frozen=True)
class Pair:
    """Two phrases joined by "and" or "or"."""

    first: Nominal
    second: Nominal
    conjunction: str = "and"


Nominal = Pronoun | Name | NounPhrase | Pair


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Older than the other."""

    adjective: Adjective
    other: Nominal


@dataclasses.dataclass(frozen=True)
class Role:
    """What somebody is: a teacher."""

    noun: Noun


@dataclasses.dataclass(frozen=True)
class Qualities:
    """One adjective, or two joined by "and", after "be"; with "very" or not."""

    adjectives: tuple[Adjective, ...]
    very: bool = False


@dataclasses.dataclass(frozen=True)
class Measure:
    """How old or how much: ten years old, ten euros.

    Args:
        number: a key of the table of numbers.
        unit: "years" or "euros".
    """

    number: str
    unit: str


Predicate = Comparison | Role | Qualities | Measure | NounPhrase


@dataclasses.dataclass(frozen=True)
class Clause:
    """A verb with all that belongs to it.

    Args:
        subject: who does it.
        verb: the verb.
        tense: "present", "progressive", "past" or "future".
        modal: "can", "must", "want", "should", "would like", "like"; or empty.
        negation: "not", "never"; or empty.
        object: what it is done to.
        recipient: who gets it.
        predicate: what the subject is, with "be".
        often: an adverb of frequency.
        manner: an adverb of manner.
        place: where or where to.
        time: when.
        time_first: whether the time begins the sentence.
    """

    subject: Nominal
    verb: Verb
    tense: str = "present"
    modal: str = ""
    negation: str = ""
    object: Nominal | None = None
    recipient: Nominal | None = None
    predicate: Predicate | None = None
    often: Phrase | None = None
    manner: Phrase | None = None
    place: Phrase | None = None
    time: Phrase | None = None
    time_first: bool = False


@dataclasses.dataclass(frozen=True)
class Relative:
    """A relative clause: the clause has the antecedent as its subject or object.

    Args:
        clause: the clause, with the antecedent in it.
        role: "subject" or "object".
    """

    clause: Clause
    role: str


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A whole sentence.

    Args:
        clause: the main clause.
        mood: "statement", "question", "command", "request" (with "please") or
            "existence" ("there is": the subject comes last).
        asked: the question word of a question that has one, or a noun phrase with
            "which" or "how many", which is the object.
        subordinate: a second clause.
        conjunction: how it is joined, in each language: "because".
        subordinate_first: whether it stands before the main clause.
        opener: what comes first of all: "yes", "excuse me".
    """

    clause: Clause
    mood: str = "statement"
    asked: Phrase | NounPhrase | None = None
    subordinate: Clause | None = None
    conjunction: Phrase | None = None
    subordinate_first: bool = False
    opener: Phrase | None = None


def person_of(nominal: Nominal) -> str:
    """The person that a verb agrees with: one of `PERSONS`."""
    if isinstance(nominal, Pronoun):
        return nominal.person
    if isinstance(nominal, Pair):
        return "they" if nominal.conjunction == "and" else person_of(nominal.second)
    if isinstance(nominal, Name):
        if "plural" in nominal.phrase.kinds:
            return "they"
        return "she" if "female" in nominal.phrase.kinds else "he"
    if nominal.plural:
        return "they"
    kinds = nominal.head.kinds
    return "she" if "female" in kinds else "he" if "male" in kinds else "it"


def is_negatable(part: Nominal | Predicate | None) -> bool:
    """Whether "not a" becomes one word, as in German "kein"."""
    return isinstance(part, NounPhrase) and part.determiner in ("a", "generic")


def object_phrase(clause: Clause) -> NounPhrase:
    """The object of a clause, a noun phrase.

    Raises:
        TypeError: where it is none.
    """
    if not isinstance(clause.object, NounPhrase):
        raise TypeError(f"no noun phrase: {clause.object}")
    return clause.object
