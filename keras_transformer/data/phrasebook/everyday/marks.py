"""Marks: pairs of words that go together, so that some may be kept from training.

"Drink milk" is one: if it is held out, training shows who drinks and what is done to
milk, but never that milk is drunk.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Comparison
from keras_transformer.data.phrasebook.everyday.meaning import Measure
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pair
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Qualities
from keras_transformer.data.phrasebook.everyday.meaning import Role
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.held_out import split_by_hash

HELD_OUT = {"test": 0.06, "validation": 0.03}  # shares of all pairs


def split_of(marks: tuple[str, ...]) -> str:
    """The split that a sentence with these marks belongs to.

    Returns:
        `"test"` or `"validation"` where one of the marks is held out for it; `"train"`
        where none is; an empty text where some are held out for either.
    """
    splits = {_split(mark) for mark in marks} - {"train"}
    if len(splits) > 1:
        return ""
    return splits.pop() if splits else "train"


@functools.cache
def _split(mark: str) -> str:
    return split_by_hash(f"everyday {mark}", HELD_OUT)


def marks_of(meaning: Sentence | Phrase) -> tuple[str, ...]:
    """The marks of a sentence: each verb with its object, or else its subject; each
    adjective with its noun. A fixed phrase has none."""
    if isinstance(meaning, Phrase):
        return ()
    clauses = (meaning.clause, meaning.subordinate)
    marks = (mark for each in clauses if each for mark in _of_clause(each))
    return tuple(dict.fromkeys(marks))


def _of_clause(clause: Clause) -> Iterator[str]:
    verb = f"{clause.verb.english} {clause.verb.english_rest}".strip()
    subject, predicate = clause.subject, clause.predicate
    if isinstance(predicate, Qualities):
        for adjective in predicate.adjectives:
            yield f"{adjective.english} {_head(subject)}"
    elif isinstance(predicate, Comparison):
        yield f"{predicate.adjective.english} {_head(subject)}"
        yield from _inner(predicate.other)
    elif isinstance(predicate, Role):
        yield f"{predicate.noun.english} {_head(subject)}"
    elif isinstance(predicate, Measure):
        yield f"{predicate.number} {_head(subject)}"
    elif isinstance(predicate, NounPhrase):
        yield f"{predicate.determiner} {predicate.noun.english}"
    elif clause.object:
        yield f"{verb} {_head(clause.object)}"
    else:
        yield f"{verb} {_head(subject)}"
    for each in (subject, clause.object, clause.recipient):
        if each:
            yield from _inner(each)


def _inner(nominal: Nominal) -> Iterator[str]:
    """The marks inside of a phrase: its adjective, its relative clause."""
    if isinstance(nominal, Pair):
        yield from _inner(nominal.first)
        yield from _inner(nominal.second)
    elif isinstance(nominal, NounPhrase):
        if nominal.adjective:
            yield f"{nominal.adjective.english} {nominal.noun.english}"
        if nominal.relative:
            yield from _of_clause(nominal.relative.clause)


def _head(nominal: Nominal) -> str:
    if isinstance(nominal, Pronoun):
        return nominal.person
    if isinstance(nominal, Name):
        return nominal.phrase.english
    if isinstance(nominal, Pair):
        return f"{_head(nominal.first)} and {_head(nominal.second)}"
    return nominal.noun.english
