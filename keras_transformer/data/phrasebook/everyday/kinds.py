"""The kinds of sentences: each function draws the meaning of one."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import clauses
from keras_transformer.data.phrasebook.everyday import joined
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday import possessions
from keras_transformer.data.phrasebook.everyday import questions
from keras_transformer.data.phrasebook.everyday import relatives
from keras_transformer.data.phrasebook.everyday import states
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.clauses import action
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import is_negatable
from keras_transformer.data.phrasebook.everyday.meaning import object_phrase
from keras_transformer.data.phrasebook.everyday.states import being
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

MODALS = {"can": 3, "must": 3, "want": 3, "should": 2, "would like": 2, "like": 2}


def statement(draw: Draw) -> Sentence:
    """The dog sleeps. I drink water. The teacher gives me a book."""
    if draw.chance(0.06):
        return Sentence(states.weather(draw))
    if draw.chance(0.08):
        return Sentence(states.role(draw))
    if draw.chance(0.08):
        return Sentence(possessions.of_them(draw))
    return Sentence(action(draw))


def progressive(draw: Draw) -> Sentence:
    """The child is sleeping."""
    if draw.chance(0.05):
        return Sentence(states.weather(draw, "progressive"))
    return Sentence(action(draw, "progressive"))


def past(draw: Draw) -> Sentence:
    """I read a book yesterday. The soup was hot."""
    if draw.chance(0.05):
        return Sentence(states.weather(draw, "past"))
    return Sentence(being(draw, "past") if draw.chance(0.2) else action(draw, "past"))


def future(draw: Draw) -> Sentence:
    """Tomorrow I will buy a car."""
    if draw.chance(0.06):
        return Sentence(states.weather(draw, "future"))
    return Sentence(action(draw, "future"))


def modal(draw: Draw) -> Sentence:
    """You must sleep. I would like a glass of water."""
    if draw.chance(0.15):
        name = draw.one(("want", "would like"))
        people = choice.someone(draw, ["person"], clauses.FIRST)
        clause = Clause(people, clauses.GET, modal=name)
        clause = clauses.with_object(draw, clause)
    else:
        name = draw.weighted(MODALS)
        late = name in ("must", "want") and draw.chance(0.15)
        clause = action(draw, "past" if late else "present", name)
        if name == "like" and choice.owned_by(clause.object, *choice.SMALL, "many"):
            things = dataclasses.replace(clause.object, determiner="a", plural=True)
            clause = dataclasses.replace(clause, object=things)
    if name not in ("must", "would like") and draw.chance(0.2):
        clause = denied(clause)
    return Sentence(clause)


NEGATIONS = {"be": 2, "role": 1, "never": 1.5, "do": 5, "will": 1, "did": 2}


def negation(draw: Draw) -> Sentence:
    """I do not drink coffee. She never smokes. The door is not open."""
    part = draw.weighted(NEGATIONS)
    if part == "be":
        clause = being(draw)
    elif part == "role":
        clause = states.role(draw)
    elif part == "never":
        clause = draw.first(
            lambda: action(draw, fits=is_often), lambda each: not each.often
        )
        clause = dataclasses.replace(clause, time=None, time_first=False, manner=None)
        clause = dataclasses.replace(clause, negation="never")
        return Sentence(clause) if is_deniable(clause) else negation(draw)
    else:
        tense = {"do": "present", "will": "future", "did": "past"}[part]
        clause = action(draw, tense)
        if tense == "present" and "hour" not in clause.verb.flags:
            clause = dataclasses.replace(clause, time=None, time_first=False)
    return Sentence(denied(clause))


def is_often(verb: Verb) -> bool:
    """Whether one may say how often it happens."""
    return not {"state", "hour", "chance"} & verb.flags


def is_deniable(clause: Clause) -> bool:
    """Whether "not" has one place in each language: no number, nobody unknown."""
    subject, thing = clause.subject, clause.object
    if isinstance(subject, NounPhrase) and subject.determiner in ("a", "many", "every"):
        return False
    counted = (*choice.SMALL, "many")
    for each in (subject, thing, clause.recipient):
        if isinstance(each, NounPhrase) and each.determiner in counted:
            return False
    unknown = isinstance(clause.recipient, NounPhrase) and (
        clause.recipient.determiner == "a"
    )
    vessel = isinstance(thing, NounPhrase) and thing.vessel is not None
    placed = clause.place is not None and not clause.verb.needs_place
    return not (unknown or vessel or clause.often or clause.manner or placed)


def denied(clause: Clause) -> Clause:
    """The clause with "not", without what "not" would have no clear place beside."""
    plain = dataclasses.replace(clause, often=None, manner=None, negation="not")
    if not clause.verb.needs_place and clause.verb.english != "be":
        plain = dataclasses.replace(plain, place=None)
    if plain.time and "hour" in plain.time.kinds:  # "nicht um vier Uhr", not at another
        plain = dataclasses.replace(plain, time=None, time_first=False)
    if not is_deniable(plain):
        plain = dataclasses.replace(
            plain,
            subject=_known(plain.subject),
            object=_uncounted(plain.object),
            recipient=_known(plain.recipient) if plain.recipient else None,
        )
    thing = plain.object
    if thing and plain.verb.german.preposition and is_negatable(thing):
        # "Nicht auf einen" and "auf keinen" would both do.
        plain = dataclasses.replace(plain, object=_known(thing))
    return plain


def _known(nominal: Nominal) -> Nominal:
    """The dog for a dog, five dogs or many dogs."""
    if isinstance(nominal, NounPhrase) and not choice.is_known(nominal):
        return dataclasses.replace(nominal, determiner="the")
    return nominal


def _uncounted(nominal: Nominal | None) -> Nominal | None:
    """Dogs for five dogs or many dogs, tea for a cup of tea."""
    if isinstance(nominal, NounPhrase) and nominal.vessel:
        return NounPhrase(nominal.noun, "a")
    if choice.owned_by(nominal, *choice.SMALL, "many"):
        return dataclasses.replace(nominal, determiner="a")
    return nominal


def command(draw: Draw) -> Sentence:
    """Open the door. Please do not wait."""
    you = Pronoun("you")
    verb = draw.one([each for each in lexicon.verbs() if "ask" in each.flags])
    clause = draw.first(
        lambda: clauses.with_object(draw, Clause(you, verb)),
        lambda each: (
            not isinstance(each.object, NounPhrase)
            or each.object.determiner in ("the", "a", "this", "your", "my")
        ),
    )
    if verb.places and (verb.needs_place or draw.chance(0.4)):
        clause = dataclasses.replace(clause, place=choice.place(draw, verb))
    mood = "request" if draw.chance(0.45) else "command"
    if draw.chance(0.25) or "chance" in verb.flags:  # do not forget the key
        clause = denied(clause)
        thing = clause.object
        if choice.owned_by(thing, "a") and not (thing.plural or thing.noun.mass):
            clause = dataclasses.replace(
                clause, object=dataclasses.replace(thing, determiner="the")
            )
    return Sentence(clause, mood)


def adjective(draw: Draw) -> Sentence:
    """The old house is very beautiful."""
    return Sentence(being(draw))


def compared(draw: Draw) -> Sentence:
    """The train is faster than the bus."""
    return Sentence(states.comparison(draw))


def number(draw: Draw) -> Sentence:
    """The boy is ten years old. The book costs twenty euros. I have two dogs."""
    part = draw.one(("age", "price", "count"))
    if part == "age":
        return Sentence(states.age(draw))
    if part == "price":
        return Sentence(states.price(draw))
    tense = draw.one(("present", "past", "future"))
    clause = draw.first(
        lambda: action(draw, tense, bare=True, fits=_counts),
        lambda each: (
            isinstance(each.object, NounPhrase)
            and not each.object.noun.mass
            and "only" not in each.object.noun.kinds
            and each.object.noun.english_plural != ""
        ),
    )
    count = draw.one(choice.SMALL)
    thing = dataclasses.replace(object_phrase(clause), determiner=count, plural=True)
    return Sentence(dataclasses.replace(clause, object=thing))


COUNTED = ("eat", "buy", "sell", "see", "read", "write", "find", "have", "need", "lose")


def _counts(verb: Verb) -> bool:
    return verb.english in COUNTED and bool(verb.objects)


def place(draw: Draw) -> Sentence:
    """The book is on the table. There is a dog in the garden. I live in Paris."""
    if draw.chance(0.35):
        return Sentence(states.whereabouts(draw))
    if draw.chance(0.4):
        existing = states.whereabouts(draw, existing=True)
        return Sentence(existing, "existence")
    placed = action(draw, fits=lambda verb: bool(verb.places))
    if placed.place is None:
        where = choice.place(draw, placed.verb)
        placed = dataclasses.replace(placed, place=where, manner=None)
    return Sentence(placed)


def phrase(draw: Draw) -> Phrase:
    """Hello, how are you? Goodbye, Anna!"""
    said = draw.one(lexicon.phrases("phrases"))
    if "name" not in said.kinds or draw.chance(0.4):
        return said
    name = draw.one(lexicon.phrases("names"))
    english, german, french = (
        re.sub(r"( ?[.?!])$", rf", {called}\1", text)
        for text, called in zip(said.texts, name.texts, strict=True)
    )
    return Phrase(english, german, french)


def opened(draw: Draw) -> Sentence:
    """Excuse me, where is the station? Yes, I drink coffee."""
    opener = draw.one(lexicon.phrases("openers"))
    makers = {
        "statement": (statement, progressive, past, future, adjective),
        "negation": (negation,),
        "question": (questions.yes_or_no, questions.with_word),
    }
    make = draw.one(makers[draw.one(sorted(opener.kinds))])
    return dataclasses.replace(make(draw), opener=opener)


KINDS: dict[str, tuple[float, Callable[[Draw], Sentence | Phrase]]] = {
    "statement": (14, statement),
    "progressive": (5, progressive),
    "question": (8, questions.yes_or_no),
    "question word": (10, questions.with_word),
    "negation": (8, negation),
    "command": (6, command),
    "modal": (8, modal),
    "past": (8, past),
    "future": (6, future),
    "adjective": (8, adjective),
    "comparison": (3, compared),
    "number": (5, number),
    "possession": (6, possessions.possession),
    "place": (5, place),
    "coordination": (5, joined.coordination),
    "relative clause": (6, relatives.relative),
    "subordinate clause": (8, joined.subordinate),
    "opener": (4, opened),
    "phrase": (3, phrase),
}
