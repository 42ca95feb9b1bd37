"""Clauses of one kind each: what somebody does, is, has, or where something is."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

from keras_transformer.data.phrasebook.everyday import choice
from keras_transformer.data.phrasebook.everyday import english
from keras_transformer.data.phrasebook.everyday import french
from keras_transformer.data.phrasebook.everyday import french_words
from keras_transformer.data.phrasebook.everyday import german
from keras_transformer.data.phrasebook.everyday import lexicon
from keras_transformer.data.phrasebook.everyday.choice import Draw
from keras_transformer.data.phrasebook.everyday.lexicon import FrenchVerb
from keras_transformer.data.phrasebook.everyday.lexicon import Phrase
from keras_transformer.data.phrasebook.everyday.lexicon import Verb
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Comparison
from keras_transformer.data.phrasebook.everyday.meaning import Measure
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Qualities
from keras_transformer.data.phrasebook.everyday.meaning import Role
from keras_transformer.data.phrasebook.everyday.meaning import person_of

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
    if not is_clear(clause):  # "I read" may be present or past
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


def is_clear(clause: Clause) -> bool:
    """Whether the English shows the tense: "I cut the bread" does not."""
    same = clause.verb.english == clause.verb.english_past
    third = person_of(clause.subject) in ("he", "she", "it")
    return third or not same or clause.tense not in ("past", "present")


def with_adjunct(draw: Draw, clause: Clause) -> Clause:
    """The clause with one of how, how often, where and when; or none."""
    verb, tense = clause.verb, clause.tense
    if "hour" in verb.flags:
        return dataclasses.replace(clause, time=choice.time(draw, "hour"))
    tense = "modal" if clause.modal in ("can", "must", "want", "should") else tense
    if clause.modal in ("like", "would like"):
        tense = "modal" if clause.modal == "would like" else "none"
    changes: dict[str, object] = {}
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
        changes["time_first"] = draw.chance(0.4)
    return dataclasses.replace(clause, **changes)


# === What somebody is ===


def being(draw: Draw, tense: str = "present", subject: Nominal | None = None) -> Clause:
    """Somebody or something is such and such."""
    subject = subject or draw.first(lambda: _described(draw), _is_known)
    first = choice.quality(draw, subject)
    both = draw.chance(0.15)
    second = choice.quality(draw, subject) if both else first
    qualities = (first, second) if go_together(first, second) else (first,)
    fixed = first.french_fixed or first.english in ("broken", "open", "closed", "free")
    very = len(qualities) == 1 and not fixed and _is_graded(first) and draw.chance(0.25)
    clause = Clause(subject, BE, tense, predicate=Qualities(qualities, very))
    if tense in ("past", "present") and "mood" in first.kinds and draw.chance(0.3):
        word = {"past": "was", "present": "be"}[tense]
        time = choice.time(draw, word)
        return dataclasses.replace(clause, time=time, time_first=draw.chance(0.4))
    return clause


UNGRADED = ("ready", "empty", "full", "round", "ripe", "late", "red", "blue", "green")
UNGRADED += ("white", "black", "yellow", "brown")
OPPOSITES = {("old", "young"), ("old", "new"), ("happy", "sad"), ("rich", "poor")}
OPPOSITES |= {("strong", "weak"), ("big", "small"), ("long", "short"), ("hot", "cold")}
OPPOSITES |= {("heavy", "light"), ("clean", "dirty"), ("empty", "full")}
OPPOSITES |= {("difficult", "easy"), ("fast", "slow"), ("open", "closed")}
OPPOSITES |= {("good", "bad"), ("tall", "small"), ("old", "modern"), ("new", "modern")}
OPPOSITES |= {("cold", "fresh"), ("broken", "new"), ("old", "fresh"), ("funny", "sad")}


def _is_known(subject: Nominal) -> bool:
    known = ("the", "this", *choice.MINE)
    return not isinstance(subject, NounPhrase) or subject.determiner in known


def _is_graded(adjective: lexicon.Adjective) -> bool:
    return adjective.english not in UNGRADED


def go_together(first: lexicon.Adjective, second: lexicon.Adjective) -> bool:
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

    def one() -> Nominal:
        if kind == "person" and draw.chance(0.4):
            return choice.name(draw) if draw.chance(0.6) else Pronoun(draw.one(FIRST))
        return draw.first(
            lambda: choice.subject_phrase(draw, draw.one(nouns)),
            lambda phrase: (
                phrase.determiner in ("the", "this", *choice.MINE)
                and phrase.adjective is None
            ),
        )

    subject = single(one())
    other = draw.first(
        lambda: single(one()),
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
    number = draw.one(choice.NUMBER_WORDS)
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
        time = choice.time(draw, tense)
        return dataclasses.replace(clause, time=time, time_first=draw.chance(0.4))
    return clause
