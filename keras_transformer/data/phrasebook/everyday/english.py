"""English: a meaning in words."""

from __future__ import annotations

import dataclasses
import re

from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Comparison
from keras_transformer.data.phrasebook.everyday.meaning import Measure
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pair
from keras_transformer.data.phrasebook.everyday.meaning import Predicate
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Relative
from keras_transformer.data.phrasebook.everyday.meaning import Role
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.words import Noun

OBJECTS = {
    "I": "me",
    "you": "you",
    "he": "him",
    "she": "her",
    "it": "it",
    "we": "us",
    "they": "them",
}
BE = {"I": ("am", "was"), "he": ("is", "was"), "she": ("is", "was")}
BE["it"] = BE["he"]
MODALS = {  # auxiliary, and what stands before the infinitive
    "can": ("can", ""),
    "must": ("must", ""),
    "should": ("should", ""),
    "would like": ("would", "like to "),
}


# === Words ===


def plural(noun: Noun) -> str:
    """Men, apples."""
    return noun.english_plural


def with_article(words: str) -> str:
    """An apple, a red apple; by the sound, so a university."""
    vowel = re.match("[aeio]|u(?!ni|se)|hour", words)
    return f"an {words}" if vowel else f"a {words}"


def third_person(base: str) -> str:
    """Sleeps, goes, carries, has."""
    if base == "have":
        return "has"
    if re.search("[^aeiou]y$", base):
        return f"{base[:-1]}ies"
    return f"{base}es" if re.search("(s|sh|ch|x|o)$", base) else f"{base}s"


def participle(base: str) -> str:
    """Sleeping, dancing, swimming: the form of the progressive."""
    if re.search("[^aeiou][aeiou][bgmnpt]$", base) and base not in UNDOUBLED:
        return f"{base}{base[-1]}ing"
    return f"{re.sub('(?<=[^e])e$', '', base) if len(base) > 2 else base}ing"


UNDOUBLED = {"open", "listen", "visit", "answer"}  # the stress is not on the end


# === Phrases ===


def nominal(meaning: Nominal, as_object: bool = False) -> str:
    """A noun phrase, a name or a pronoun."""
    if isinstance(meaning, Pronoun):
        return OBJECTS[meaning.person] if as_object else meaning.person
    if isinstance(meaning, Name):
        return meaning.phrase.english
    if isinstance(meaning, Pair):
        first, second = (
            nominal(each, as_object) for each in (meaning.first, meaning.second)
        )
        return f"{first} {meaning.conjunction} {second}"
    return _noun_phrase(meaning)


def _noun_phrase(meaning: NounPhrase) -> str:
    head = meaning.head
    words = plural(head) if meaning.plural else head.english
    if meaning.vessel:
        words = f"{words} of {meaning.noun.english}"
    if meaning.adjective:
        words = f"{meaning.adjective.english} {words}"
    words = _determined(meaning, words)
    return (
        f"{words} {_relative(meaning, meaning.relative)}"
        if meaning.relative
        else (words)
    )


def _determined(meaning: NounPhrase, words: str) -> str:
    determiner = meaning.determiner
    uncounted = meaning.plural or meaning.head.mass
    if determiner == "generic" or (determiner == "a" and uncounted):
        return words
    if determiner == "a":
        return with_article(words)
    if determiner == "whose" and meaning.owner:
        return f"{meaning.owner.english}'s {words}"
    if determiner == "this":
        return f"{'these' if meaning.plural else 'this'} {words}"
    return f"{determiner} {words}"


def _relative(antecedent: NounPhrase, relative: Relative) -> str:
    person = "person" in antecedent.noun.kinds
    if relative.role == "subject":
        rest = _predication(relative.clause)
        return f"{'who' if person else 'that'} {rest}"
    return f"that {clause(relative.clause, with_object=False)}"


# === Clauses ===


def sentence(meaning: Sentence) -> str:
    """A whole sentence, with its first letter and its last sign."""
    main = MOODS[meaning.mood](meaning)
    if meaning.subordinate and meaning.conjunction:
        joint = meaning.conjunction.english
        second = clause(meaning.subordinate)
        if meaning.subordinate_first:
            main = f"{joint} {second}, {main}"
        else:
            main = f"{main}{'' if joint[0] == ',' else ' '}{joint} {second}"
    if meaning.opener:
        main = f"{meaning.opener.english}, {main}"
    sign = "?" if meaning.mood == "question" else "."
    return f"{main[0].upper()}{main[1:]}{sign}"


def clause(meaning: Clause, with_object: bool = True) -> str:
    """A clause in the order of a statement."""
    words = f"{nominal(meaning.subject)} {_predication(meaning, with_object)}"
    if meaning.time and meaning.time_first:
        return f"{meaning.time.english} {words}"
    return words


def _statement(meaning: Sentence) -> str:
    return clause(meaning.clause)


def _existence(meaning: Sentence) -> str:
    main = meaning.clause
    verb = _group(main).auxiliary
    place = main.place.english if main.place else ""
    return _joined("there", verb, nominal(main.subject), place)


def _question(meaning: Sentence) -> str:
    asked, main = meaning.asked, meaning.clause
    if isinstance(asked, NounPhrase):
        front = nominal(asked)
    else:
        front = asked.english if asked else ""
    if isinstance(main.subject, Name) and "asked" in main.subject.phrase.kinds:
        return clause(main)  # who sleeps
    group = _group(main)
    auxiliary = group.auxiliary or _do(main)
    rest = group.tail if group.auxiliary else _joined(group.base, group.tail)
    middle = (_denial(main), _often(main), rest)
    return _joined(
        front,
        auxiliary,
        nominal(main.subject),
        *middle,
        *_complements(main, not isinstance(asked, NounPhrase)),
    )


def _command(meaning: Sentence) -> str:
    main = meaning.clause
    return _joined(
        "please" if meaning.mood == "request" else "",
        "do not" if main.negation else "",
        main.verb.english,
        *_complements(main),
    )


MOODS = {
    "statement": _statement,
    "question": _question,
    "command": _command,
    "request": _command,
    "existence": _existence,
}


def _predication(meaning: Clause, with_object: bool = True) -> str:
    """All but the subject and the time at the beginning."""
    group, often = _group(meaning), _often(meaning)
    if group.auxiliary:
        denied = meaning.negation == "not"
        if denied and group.auxiliary == "can":
            verb = ("cannot", group.tail)
        else:
            verb = (group.auxiliary, _denial(meaning), often, group.tail)
    elif meaning.negation == "not":
        verb = (_do(meaning), "not", group.base, group.tail)
    else:
        verb = (often, group.finite, group.tail)
    return _joined(*verb, *_complements(meaning, with_object))


@dataclasses.dataclass(frozen=True)
class Group:
    """A verb with its auxiliary.

    Args:
        auxiliary: is, will, can; empty for a simple form.
        base: the infinitive that follows do.
        finite: the simple form.
        tail: what follows either.
    """

    auxiliary: str = ""
    base: str = ""
    finite: str = ""
    tail: str = ""


def _group(meaning: Clause) -> Group:
    person, base = person_of(meaning.subject), meaning.verb.english
    was = meaning.tense == "past"
    if meaning.modal in ("want", "like") or (meaning.modal == "must" and was):
        name = "have" if meaning.modal == "must" else meaning.modal
        tail = f"to {base}" if base else ""  # I want a book
        return Group("", name, _simple(name, PAST[name], person, was), tail)
    if meaning.modal:
        auxiliary, tail = MODALS[meaning.modal]
        tail = f"{tail}{base}" if base else tail.removesuffix(" to ")
        return Group("could" if was else auxiliary, tail=tail)
    if meaning.tense == "future":
        return Group("will", tail=base)
    if base == "be":
        return Group(_be(person)[was])
    if meaning.tense == "progressive":
        return Group(_be(person)[0], tail=participle(base))
    return Group("", base, _simple(base, meaning.verb.english_past, person, was))


PAST = {"want": "wanted", "like": "liked", "have": "had"}


def _simple(base: str, past: str, person: str, was: bool) -> str:
    if was:
        return past
    return third_person(base) if person in ("he", "she", "it") else base


def _be(person: str) -> tuple[str, str]:
    return BE.get(person, ("are", "were"))


def _do(meaning: Clause) -> str:
    if meaning.tense == "past":
        return "did"
    return "does" if person_of(meaning.subject) in ("he", "she", "it") else "do"


def _denial(meaning: Clause) -> str:
    return "not" if meaning.negation == "not" else ""


def _often(meaning: Clause) -> str:
    if meaning.negation == "never":
        return "never"
    return meaning.often.english if meaning.often else ""


def _complements(meaning: Clause, with_object: bool = True) -> list[str]:
    recipient = nominal(meaning.recipient, True) if meaning.recipient else ""
    return [
        meaning.verb.english_rest,
        recipient,
        nominal(meaning.object, True) if meaning.object and with_object else "",
        _predicate(meaning.predicate) if meaning.predicate else "",
        meaning.manner.english if meaning.manner else "",
        meaning.place.english if meaning.place else "",
        meaning.time.english if meaning.time and not meaning.time_first else "",
    ]


def _predicate(meaning: Predicate) -> str:
    if isinstance(meaning, Role):
        return with_article(meaning.noun.english)
    if isinstance(meaning, Measure):
        old = " old" if meaning.unit == "years" else ""
        return f"{meaning.number} {meaning.unit}{old}"
    if isinstance(meaning, Comparison):
        other = nominal(meaning.other, True)
        return f"{meaning.adjective.english_comparative} than {other}"
    if isinstance(meaning, NounPhrase):
        return nominal(meaning)
    words = " and ".join(each.english for each in meaning.adjectives)
    return f"very {words}" if meaning.very else words


def _joined(*words: str) -> str:
    return " ".join(filter(None, words))
