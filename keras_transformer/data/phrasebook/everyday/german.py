"""German: a meaning in words, with the verb second, or last."""

from __future__ import annotations

import dataclasses

from keras_transformer.data.phrasebook.everyday import german_words as words
from keras_transformer.data.phrasebook.everyday.meaning import Clause
from keras_transformer.data.phrasebook.everyday.meaning import Comparison
from keras_transformer.data.phrasebook.everyday.meaning import Measure
from keras_transformer.data.phrasebook.everyday.meaning import Name
from keras_transformer.data.phrasebook.everyday.meaning import Nominal
from keras_transformer.data.phrasebook.everyday.meaning import NounPhrase
from keras_transformer.data.phrasebook.everyday.meaning import Pair
from keras_transformer.data.phrasebook.everyday.meaning import Pronoun
from keras_transformer.data.phrasebook.everyday.meaning import Relative
from keras_transformer.data.phrasebook.everyday.meaning import Role
from keras_transformer.data.phrasebook.everyday.meaning import Sentence
from keras_transformer.data.phrasebook.everyday.meaning import is_negatable
from keras_transformer.data.phrasebook.everyday.meaning import person_of
from keras_transformer.data.phrasebook.everyday.numbers import NUMBERS

MODALS = {
    "can": "können",
    "must": "müssen",
    "want": "wollen",
    "should": "sollten",
    "would like": "möchten",
}
UNCHANGED = {"many": "viele", "how many": "wie viele"}


# === Phrases ===


def nominal(meaning: Nominal, case: str = "nom", denied: bool = False) -> str:
    """A noun phrase, a name or a pronoun in a case.

    Args:
        meaning: the phrase.
        case: "nom", "acc" or "dat".
        denied: whether its indefinite article becomes "kein".
    """
    if isinstance(meaning, Pronoun):
        return words.PRONOUNS[_pronoun(meaning)][case]
    if isinstance(meaning, Name):
        return meaning.phrase.german
    if isinstance(meaning, Pair):
        joint = {"and": "und", "or": "oder"}[meaning.conjunction]
        first, second = meaning.first, meaning.second
        return f"{nominal(first, case)} {joint} {nominal(second, case)}"
    return _noun_phrase(meaning, case, denied)


def prepositional(preposition: str, meaning: Nominal, case: str) -> str:
    """A phrase with its preposition: im Garten, mit dem Hund."""
    return words.contracted(f"{preposition} {nominal(meaning, case)}")


def _pronoun(meaning: Pronoun) -> str:
    """The person; what stands for a thing has its gender."""
    if meaning.noun and meaning.person == "it":
        return words.IT[meaning.noun.german_gender]
    return meaning.person


def _noun_phrase(meaning: NounPhrase, case: str, denied: bool) -> str:
    head = meaning.head
    of = words.gender(head, meaning.plural)
    article = _article(meaning, denied)
    noun = words.noun_form(head, case, meaning.plural)
    if meaning.adjective:
        ending = words.adjective_ending(article, case, of)
        noun = f"{meaning.adjective.german_stem}{ending} {noun}"
    if meaning.vessel:
        noun = f"{noun} {meaning.noun.german}"
    phrase = _joined(_article_form(meaning, article, case, of), noun)
    if meaning.relative:
        return f"{phrase}, {_relative(meaning, meaning.relative)},"
    return phrase


def _article(meaning: NounPhrase, denied: bool) -> str:
    """The key of the article in the tables of endings; "" is none."""
    if meaning.determiner in ("a", "generic"):
        if denied:
            return "no"
        bare = meaning.plural or meaning.head.mass
        return "" if bare else "a"
    return meaning.determiner


def _article_form(meaning: NounPhrase, article: str, case: str, of: str) -> str:
    if article == "whose" and meaning.owner:
        return f"{meaning.owner.german}s"
    if article in NUMBERS:
        return NUMBERS[article].german
    if article in UNCHANGED:
        return UNCHANGED[article]
    return words.determiner(article, case, of) if article else ""


def _relative(antecedent: NounPhrase, relative: Relative) -> str:
    inner = relative.clause
    case = "nom" if relative.role == "subject" else inner.verb.german.case
    of = words.gender(antecedent.head, antecedent.plural)
    pronoun = words.RELATIVE[case][of]
    if relative.role == "subject":
        return _joined(pronoun, *_verb_last(inner, subject=False))
    return _joined(pronoun, *_verb_last(inner, with_object=False))


# === Clauses ===


def sentence(meaning: Sentence) -> str:
    """A whole sentence, with its first letter, its commas and its last sign."""
    main = MOODS[meaning.mood](meaning)
    if meaning.subordinate and meaning.conjunction:
        joint = meaning.conjunction.german
        main_order = "main" in meaning.conjunction.kinds
        order = statement if main_order else subordinate
        second = f"{joint} {order(meaning.subordinate)}"
        if meaning.subordinate_first:
            main = f"{second}, {_joined(*_verb_first(meaning.clause))}"
        else:
            comma = "" if joint == "und" else ","
            main = f"{main}{comma} {second}"
    if meaning.opener:
        main = f"{meaning.opener.german}, {main}"
    sign = "?" if meaning.mood == "question" else "."
    text = f"{main[0].upper()}{main[1:]}{sign}".replace(",,", ",")
    return text.replace(f",{sign}", sign)


def statement(meaning: Clause) -> str:
    """A clause with its verb second."""
    if meaning.time and meaning.time_first:
        return _joined(meaning.time.german, *_verb_first(meaning))
    finite, *rest = _verb_first(meaning, subject=False)
    return _joined(nominal(meaning.subject), finite, *rest)


def subordinate(meaning: Clause) -> str:
    """A clause with its verb last."""
    return _joined(*_verb_last(meaning))


def _statement(meaning: Sentence) -> str:
    spoken = meaning.clause
    thing = spoken.object
    if isinstance(thing, NounPhrase) and thing.relative:  # it goes to the very end
        plain = dataclasses.replace(thing, relative=None)
        main = statement(dataclasses.replace(spoken, object=plain))
        return f"{main}, {_relative(thing, thing.relative)}"
    return statement(spoken)


def _existence(meaning: Sentence) -> str:
    main = meaning.clause
    finite = words.present(main.verb.german, person_of(main.subject))
    place = main.place.german if main.place else ""
    return _joined(place, finite, nominal(main.subject))


def _question(meaning: Sentence) -> str:
    asked, main = meaning.asked, meaning.clause
    if isinstance(main.subject, Name) and "asked" in main.subject.phrase.kinds:
        return statement(main)
    if isinstance(asked, NounPhrase):
        front = nominal(asked, main.verb.german.case)
        return _joined(front, *_verb_first(main, with_object=False))
    return _joined(asked.german if asked else "", *_verb_first(main))


def _command(meaning: Sentence) -> str:
    main = meaning.clause
    please = "bitte" if meaning.mood == "request" else ""
    return _joined(please, *_verb_first(main))


MOODS = {
    "statement": _statement,
    "question": _question,
    "command": _command,
    "request": _command,
    "existence": _existence,
}


def _verb_first(
    meaning: Clause, subject: bool = True, with_object: bool = True
) -> list[str]:
    """The finite verb, the middle of the clause, and the rest of the verb."""
    finite, last = _verb(meaning)
    prefix = "" if last else meaning.verb.german.prefix
    middle = _middle(meaning, subject, with_object)
    if subject and not isinstance(meaning.subject, Pronoun):
        middle = _light_first(middle)
    return [finite, *middle, last, prefix]


def _light_first(middle: list[str]) -> list[str]:
    """Pronouns before a subject that is none, where both cannot be mixed up."""
    subject, *rest = middle
    light = [each for each in rest[:2] if each in LIGHT]
    return [*light, subject, *(each for each in rest if each not in light)]


LIGHT = ("mich", "mir", "sich", "uns", "ihn", "ihm", "Ihnen", "ihnen")


def _verb_last(
    meaning: Clause, subject: bool = True, with_object: bool = True
) -> list[str]:
    """The middle of the clause, and the verb, with its finite form at the end."""
    finite, last = _verb(meaning)
    prefix = "" if last else meaning.verb.german.prefix
    return [*_middle(meaning, subject, with_object), last, f"{prefix}{finite}"]


def _verb(meaning: Clause) -> tuple[str, str]:
    """The finite verb without prefix, and what stands at the end of the clause."""
    verb, person = meaning.verb.german, person_of(meaning.subject)
    modal = MODALS.get(meaning.modal)
    if modal:
        past = meaning.tense == "past"
        finite = words.simple_past if past else words.present_of
        return finite(modal, person), words.infinitive(verb)
    if meaning.tense == "future":
        return words.present_of("werden", person), words.infinitive(verb)
    if meaning.tense == "past":
        if verb.infinitive in ("sein", "haben"):
            return words.simple_past(verb.infinitive, person), ""
        auxiliary = words.present_of(verb.auxiliary, person)
        return auxiliary, words.past_participle(verb)
    return words.present(verb, person), ""


def _middle(meaning: Clause, subject: bool, with_object: bool) -> list[str]:
    """All between the verb's two places, in their order.

    Pronouns come first. What is known comes before "oft" and "nicht", what is new
    after "gern"; then how, where, and what somebody is.
    """
    places = _complements(meaning, with_object)
    adverbs = bool(meaning.negation or meaning.often or meaning.modal == "like")
    known = places["known"]
    denial = "nicht" if meaning.negation == "not" and not _is_kein(meaning) else ""
    liked = meaning.modal == "like"
    time = meaning.time.german if meaning.time and not meaning.time_first else ""
    return [
        nominal(meaning.subject) if subject else "",
        _reflexive(meaning),
        *places["pronoun"],
        "gerade" if meaning.tense == "progressive" else "",
        *(known if adverbs else ()),
        time,
        _often(meaning),
        *(() if adverbs else known),
        *((denial, "gern") if liked else ()),
        *places["new"],
        "" if liked else denial,
        meaning.manner.german if meaning.manner else "",
        *places["last"],
        meaning.place.german if meaning.place else "",
        _predicate(meaning) if meaning.predicate else "",
        _words_before(meaning),
    ]


def _complements(meaning: Clause, with_object: bool) -> dict[str, list[str]]:
    """Recipient and object by their places: "pronoun", "known", "new" or "last"."""
    places: dict[str, list[str]] = {"pronoun": [], "known": [], "new": [], "last": []}
    if meaning.recipient:
        text = nominal(meaning.recipient, "dat")
        places[_place_of(meaning.recipient)].append(text)
    if meaning.object and with_object:
        verb = meaning.verb.german
        denied = _is_kein(meaning)
        text = nominal(meaning.object, verb.case, denied)
        place = "last" if verb.preposition else _place_of(meaning.object)
        if verb.preposition:
            text = prepositional(verb.preposition, meaning.object, verb.case)
        places[place].append(text)
    return places


def _place_of(meaning: Nominal) -> str:
    if isinstance(meaning, Pronoun):
        return "pronoun"
    new = ("a", "generic", "many", *NUMBERS)
    is_new = isinstance(meaning, NounPhrase) and meaning.determiner in new
    return "new" if is_new else "known"


def _is_kein(meaning: Clause) -> bool:
    """Whether "nicht" becomes "kein", before an object or a role."""
    verb = meaning.verb.german
    if meaning.negation != "not" or meaning.modal == "like":
        return False
    if isinstance(meaning.predicate, Role) or verb.denied:
        return True
    if is_negatable(meaning.predicate):
        return True
    return is_negatable(meaning.object) and not verb.preposition


def _reflexive(meaning: Clause) -> str:
    if not meaning.verb.german.reflexive:
        return ""
    return words.REFLEXIVE.get(person_of(meaning.subject), "sich")


def _often(meaning: Clause) -> str:
    if meaning.negation == "never":
        return "nie"
    return meaning.often.german if meaning.often else ""


def _words_before(meaning: Clause) -> str:
    verb = meaning.verb.german
    denied = verb.denied if _is_kein(meaning) else ""
    return _joined(denied, verb.before)


def _predicate(meaning: Clause) -> str:
    predicate = meaning.predicate
    if isinstance(predicate, Role):
        noun, denied = predicate.noun, _is_kein(meaning)
        kein = words.determiner("no", "nom", noun.german_gender) if denied else ""
        return _joined(kein, noun.german)
    if isinstance(predicate, Measure):
        number = NUMBERS[predicate.number].german
        return f"{number} {MEASURES[predicate.unit]}"
    if isinstance(predicate, Comparison):
        return (
            f"{predicate.adjective.german_comparative} als {nominal(predicate.other)}"
        )
    if isinstance(predicate, NounPhrase):
        return nominal(predicate, "nom", _is_kein(meaning))
    if predicate is None:
        return ""
    text = " und ".join(each.german for each in predicate.adjectives)
    return f"sehr {text}" if predicate.very else text


MEASURES = {"years": "Jahre alt", "euros": "Euro"}


def _joined(*parts: str) -> str:
    return " ".join(filter(None, parts))
