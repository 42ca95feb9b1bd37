"""French: a meaning in words, with all that agrees."""

from __future__ import annotations

import re

from keras_transformer.data.phrasebook.everyday import french_words as words
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
    "can": "pouvoir",
    "must": "devoir",
    "want": "vouloir",
    "should": "devoir",
    "would like": "vouloir",
    "like": "aimer",
}
DENIALS = {"not": "pas", "never": "jamais"}
COUNTS = {"many": "beaucoup de", "how many": "combien de", "every": "chaque"}


# === Phrases ===


def nominal(meaning: Nominal, denied: bool = False) -> str:
    """A noun phrase, a name or a stressed pronoun.

    Args:
        meaning: the phrase.
        denied: whether its indefinite article becomes "de".
    """
    if isinstance(meaning, Pronoun):
        return words.STRESSED[_person(meaning)]
    if isinstance(meaning, Name):
        return meaning.phrase.french
    if isinstance(meaning, Pair):
        joint = {"and": "et", "or": "ou"}[meaning.conjunction]
        return f"{nominal(meaning.first)} {joint} {nominal(meaning.second)}"
    return _noun_phrase(meaning, denied)


def subject(meaning: Nominal) -> str:
    """The same as a subject: je, elle, le chien."""
    if isinstance(meaning, Pronoun):
        return words.SUBJECTS[_person(meaning)]
    return nominal(meaning)


def gender_and_number(meaning: Nominal) -> tuple[bool, bool]:
    """Whether it is feminine, and whether it is plural; "you" is one person."""
    if isinstance(meaning, Pronoun):
        feminine = _person(meaning) in ("she", "they all women")
        return feminine, meaning.person in ("we", "they")
    if isinstance(meaning, Pair):
        both = (meaning.first, meaning.second)
        return all(gender_and_number(each)[0] for each in both), True
    if isinstance(meaning, Name):
        return "female" in meaning.phrase.kinds, False
    return meaning.head.french_gender == "f", meaning.plural


def _person(meaning: Pronoun) -> str:
    """The person; what stands for a thing has its gender."""
    if not meaning.noun:
        return meaning.person
    feminine = meaning.noun.french_gender == "f"
    if meaning.person == "they":
        return "they all women" if feminine else "they"
    return "she" if feminine else "he"


def _noun_phrase(meaning: NounPhrase, denied: bool) -> str:
    feminine, plural = gender_and_number(meaning)
    noun = words.noun_form(meaning.head, plural)
    if meaning.vessel:
        noun = f"{noun} de {meaning.noun.french}"
    adjective, first = meaning.adjective, False
    if adjective:
        first = adjective.french_first
        form = words.adjective_form(adjective, feminine, plural, noun if first else "")
        noun = f"{form} {noun}" if first else f"{noun} {form}"
    article = _article(meaning, denied, noun, first)
    phrase = f"{article} {noun}" if article else noun
    if meaning.owner:
        phrase = f"{phrase} de {meaning.owner.french}"
    if meaning.relative:
        phrase = f"{phrase} {_relative(meaning, meaning.relative)}"
    return phrase


def _article(meaning: NounPhrase, denied: bool, noun: str, first: bool) -> str:
    feminine, plural = gender_and_number(meaning)
    determiner = meaning.determiner
    if determiner in NUMBERS:
        return NUMBERS[determiner].french
    if determiner in COUNTS:
        return COUNTS[determiner]
    if determiner == "a" and (denied or (plural and first)):
        return "de"
    if determiner == "a" and meaning.head.mass:
        determiner = "mass"
    if determiner == "whose":
        determiner = "the"
    return words.determiner(determiner, feminine, plural, noun)


def _relative(antecedent: NounPhrase, relative: Relative) -> str:
    if relative.role == "subject":
        return f"qui {_predication(relative.clause)}"
    return f"que {clause(relative.clause, moved=antecedent)}"


# === Clauses ===


def sentence(meaning: Sentence) -> str:
    """A whole sentence, with its first letter, its spaces and its last sign."""
    main = MOODS[meaning.mood](meaning)
    if meaning.subordinate and meaning.conjunction:
        joint = meaning.conjunction.french
        second = clause(meaning.subordinate)
        if meaning.subordinate_first:
            main = f"{joint} {second}, {main}"
        else:
            main = f"{main}{'' if joint[0] == ',' else ' '}{joint} {second}"
    if meaning.opener:
        main = f"{meaning.opener.french}, {main}"
    text = words.elided(main)
    sign = "\u202f?" if meaning.mood == "question" else "."
    return f"{text[0].upper()}{text[1:]}{sign}"


def clause(meaning: Clause, moved: Nominal | None = None) -> str:
    """A clause in the order of a statement.

    Args:
        meaning: the clause.
        moved: its object where that stands before the clause, to agree with.
    """
    text = f"{subject(meaning.subject)} {_predication(meaning, moved)}"
    if meaning.time and meaning.time_first:
        return f"{meaning.time.french}, {text}"
    return text


def _statement(meaning: Sentence) -> str:
    return clause(meaning.clause)


def _existence(meaning: Sentence) -> str:
    main = meaning.clause
    place = main.place.french if main.place else ""
    return f"il y a {nominal(main.subject)} {place}"


def _question(meaning: Sentence) -> str:
    asked, main = meaning.asked, meaning.clause
    if isinstance(main.subject, Name) and "asked" in main.subject.phrase.kinds:
        return clause(main)
    if isinstance(asked, NounPhrase):
        return f"{nominal(asked)} est-ce que {clause(main, moved=asked)}"
    if asked and "inverted" in asked.kinds:
        return _joined(asked.french, *_verb(main, [], None), subject(main.subject))
    front = f"{asked.french} " if asked else ""
    return f"{front}est-ce que {clause(main)}"


def _command(meaning: Sentence) -> str:
    main = meaning.clause
    infinitive = main.verb.french.infinitive
    clitics = _clitics(main)
    denied = bool(main.negation)
    if meaning.mood == "request":
        verb = ["veuillez", *(("ne pas",) if denied else ()), *clitics, infinitive]
    elif denied:
        verb = ["ne", *clitics, words.present(infinitive, "you"), "pas"]
    else:
        tails = [{"me": "moi"}.get(clitic, clitic) for clitic in clitics]
        verb = ["-".join([words.present(infinitive, "you"), *tails])]
    return _joined(*verb, *_complements(main, main.object))


MOODS = {
    "statement": _statement,
    "question": _question,
    "command": _command,
    "request": _command,
    "existence": _existence,
}


def _predication(meaning: Clause, moved: Nominal | None = None) -> str:
    """All but the subject and the time at the beginning."""
    thing = None if moved else meaning.object
    verb = _verb(meaning, _clitics(meaning, moved), moved)
    return _joined(*verb, *_complements(meaning, thing))


def _verb(meaning: Clause, clitics: list[str], moved: Nominal | None) -> list[str]:
    """Ne, pronouns, the finite verb, pas, and the rest of the verb."""
    infinitive = meaning.verb.french.infinitive
    denial = DENIALS.get(meaning.negation, "")
    finite, rest = _finite(meaning, infinitive, moved)
    on_infinitive = meaning.modal or meaning.tense == "progressive"
    adverbs = [each.french for each in (meaning.often, meaning.manner) if each]
    if on_infinitive:
        return [
            "ne" if denial else "",
            *finite[:1],
            denial,
            *finite[1:],
            *adverbs,
            *clitics,
            rest,
        ]
    return ["ne" if denial else "", *clitics, *finite, denial, *adverbs, rest]


def _finite(
    meaning: Clause, infinitive: str, moved: Nominal | None
) -> tuple[list[str], str]:
    """The finite verb with what always follows it, and the participle or infinitive."""
    person, past = person_of(meaning.subject), meaning.tense == "past"
    if meaning.modal:
        return _modal(meaning.modal, person, past), infinitive
    if meaning.tense == "progressive":
        return [words.present("être", person), "en train de"], infinitive
    if meaning.tense == "future":
        return [words.future(infinitive, person)], ""
    if not past:
        return [words.present(infinitive, person)], ""
    if infinitive in ("être", "avoir"):
        return [words.imperfect(infinitive, person)], ""
    participle = words.participle(infinitive)
    if infinitive in words.ETRE or meaning.verb.french.reflexive:
        agreed = words.agreeing(participle, *gender_and_number(meaning.subject))
        return [words.present("être", person)], agreed
    antecedent = moved or _direct_pronoun(meaning)
    if antecedent:
        participle = words.agreeing(participle, *gender_and_number(antecedent))
    return [words.present("avoir", person)], participle


def _modal(modal: str, person: str, past: bool) -> list[str]:
    infinitive = MODALS[modal]
    if modal in ("should", "would like"):
        return [words.conditional(infinitive, person)]
    if not past:
        return [words.present(infinitive, person)]
    if modal == "want":
        return [words.imperfect(infinitive, person)]
    return [words.present("avoir", person), words.participle(infinitive)]


def _direct_pronoun(meaning: Clause) -> Pronoun | None:
    thing = meaning.object
    if isinstance(thing, Pronoun) and not meaning.verb.french.preposition:
        return thing
    return None


def _clitics(meaning: Clause, moved: Nominal | None = None) -> list[str]:
    """The pronouns before the verb."""
    verb, thing = meaning.verb.french, None if moved else meaning.object
    clitics = []
    if verb.reflexive:
        clitics.append(words.REFLEXIVE.get(person_of(meaning.subject), "se"))
    if isinstance(thing, Pronoun) and verb.preposition in ("", "à"):
        table = words.INDIRECT if verb.preposition else words.DIRECT
        clitics.append(table[_person(thing)])
    if isinstance(meaning.recipient, Pronoun):
        clitics.append(words.INDIRECT[_person(meaning.recipient)])
    return clitics


def _complements(meaning: Clause, thing: Nominal | None) -> list[str]:
    """All after the verb, in its order."""
    recipient = meaning.recipient
    if isinstance(recipient, Pronoun):  # it stands before the verb
        recipient = None
    return [
        meaning.verb.french.after,
        _object(meaning, thing) if thing else "",
        words.prepositional("à", nominal(recipient)) if recipient else "",
        _predicate(meaning) if meaning.predicate else "",
        meaning.place.french if meaning.place else "",
        meaning.time.french if meaning.time and not meaning.time_first else "",
    ]


def _object(meaning: Clause, thing: Nominal) -> str:
    preposition = meaning.verb.french.preposition
    if isinstance(thing, Pronoun) and preposition in ("", "à"):
        return ""
    if not preposition:
        # Who does not like to drink milk denies the liking: "boire du lait".
        negated = meaning.negation and meaning.modal != "like"
        denied = bool(negated) and is_negatable(thing)
        return nominal(thing, denied)
    # "Besoin de" swallows the article of what is not counted.
    swallowed = preposition == "de" and _is_uncounted(thing)
    text = nominal(thing, swallowed)
    return text if swallowed else words.prepositional(preposition, text)


def _is_uncounted(thing: Nominal) -> bool:
    return (
        isinstance(thing, NounPhrase)
        and thing.determiner == "a"
        and (thing.plural or thing.head.mass)
    )


def _predicate(meaning: Clause) -> str:
    predicate = meaning.predicate
    if isinstance(predicate, Role):
        return predicate.noun.french
    if isinstance(predicate, Measure):
        unit = {"years": "ans", "euros": "euros"}[predicate.unit]
        return f"{NUMBERS[predicate.number].french} {unit}"
    if isinstance(predicate, NounPhrase):
        return nominal(predicate)
    if predicate is None:
        return ""
    agreement = gender_and_number(meaning.subject)
    if isinstance(predicate, Comparison):
        form = words.adjective_form(predicate.adjective, *agreement)
        better = {"bon": "meilleur", "bonne": "meilleure"}
        better |= {f"{bad}s": f"{good}s" for bad, good in better.items()}
        form = better.get(form, f"plus {form}")
        return f"{form} que {nominal(predicate.other)}"
    forms = [words.adjective_form(each, *agreement) for each in predicate.adjectives]
    return f"{'très ' if predicate.very else ''}{' et '.join(forms)}"


def _joined(*parts: str) -> str:
    return re.sub(" +", " ", " ".join(filter(None, parts))).strip()
