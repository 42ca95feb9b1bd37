"""German words: articles, endings of nouns and adjectives, forms of verbs."""

from __future__ import annotations

import re

from keras_transformer.data.phrasebook.everyday.words import GermanVerb
from keras_transformer.data.phrasebook.everyday.words import Noun

# Endings by case, then by gender "m", "f", "n" or "p" for the plural.
STRONG = {
    "nom": {"m": "er", "f": "e", "n": "es", "p": "e"},
    "acc": {"m": "en", "f": "e", "n": "es", "p": "e"},
    "dat": {"m": "em", "f": "er", "n": "em", "p": "en"},
}
DEFINITE = {
    "nom": {"m": "der", "f": "die", "n": "das", "p": "die"},
    "acc": {"m": "den", "f": "die", "n": "das", "p": "die"},
    "dat": {"m": "dem", "f": "der", "n": "dem", "p": "den"},
}
EIN_WORDS = {  # no ending where the noun is masculine nominative or neuter
    "a": "ein",
    "no": "kein",
    "my": "mein",
    "your": "Ihr",
    "his": "sein",
    "her": "ihr",
    "our": "unser",
    "their": "ihr",
}
DER_WORDS = {"this": "dies", "every": "jed", "which": "welch"}
RELATIVE = {**DEFINITE, "dat": {"m": "dem", "f": "der", "n": "dem", "p": "denen"}}

PRONOUNS = {
    "I": {"nom": "ich", "acc": "mich", "dat": "mir"},
    "you": {"nom": "Sie", "acc": "Sie", "dat": "Ihnen"},
    "he": {"nom": "er", "acc": "ihn", "dat": "ihm"},
    "she": {"nom": "sie", "acc": "sie", "dat": "ihr"},
    "it": {"nom": "es", "acc": "es", "dat": "ihm"},
    "we": {"nom": "wir", "acc": "uns", "dat": "uns"},
    "they": {"nom": "sie", "acc": "sie", "dat": "ihnen"},
}
REFLEXIVE = {"I": "mich", "we": "uns"}  # of all others: sich
IT = {"m": "he", "f": "she", "n": "it"}  # the pronoun that stands for a thing

CONTRACTIONS = {
    "in dem": "im",
    "in das": "ins",
    "an dem": "am",
    "an das": "ans",
    "zu dem": "zum",
    "zu der": "zur",
    "bei dem": "beim",
    "von dem": "vom",
}

# Present of ich, er, wir; simple past of ich and er, and of wir.
IRREGULAR = {
    "sein": ("bin", "ist", "sind", "war", "waren"),
    "haben": ("habe", "hat", "haben", "hatte", "hatten"),
    "werden": ("werde", "wird", "werden", "wurde", "wurden"),
    "können": ("kann", "kann", "können", "konnte", "konnten"),
    "müssen": ("muss", "muss", "müssen", "musste", "mussten"),
    "wollen": ("will", "will", "wollen", "wollte", "wollten"),
    "mögen": ("mag", "mag", "mögen", "mochte", "mochten"),
    "wissen": ("weiß", "weiß", "wissen", "wusste", "wussten"),
    "sollten": ("sollte", "sollte", "sollten", "sollte", "sollten"),
    "möchten": ("möchte", "möchte", "möchten", "wollte", "wollten"),
}


def gender(noun: Noun, plural: bool) -> str:
    """ "m", "f", "n", or "p" in the plural, where all genders are alike."""
    return "p" if plural else noun.german_gender


def noun_form(noun: Noun, case: str, plural: bool) -> str:
    """The noun in a case: den Jungen, den Kindern."""
    if not plural:
        weak = noun.german_weak if case != "nom" else ""
        return weak or noun.german
    form = noun.german_plural
    return f"{form}n" if case == "dat" and re.search("(e|el|er)$", form) else form


def determiner(word: str, case: str, of: str) -> str:
    """The form of an article or possessive before a noun of a gender."""
    if word == "the":
        return DEFINITE[case][of]
    if word in DER_WORDS:
        return DER_WORDS[word] + STRONG[case][of]
    bare = (case == "nom" and of == "m") or (case != "dat" and of == "n")
    return EIN_WORDS[word] + ("" if bare else STRONG[case][of])


def adjective_ending(word: str, case: str, of: str) -> str:
    """The ending of an adjective after this determiner; "" is none."""
    if word in ("the", *DER_WORDS):
        base = (case == "nom" and of != "p") or (case == "acc" and of in "fn")
        return "e" if base else "en"
    weak = of == "p" or case == "dat" or (case == "acc" and of == "m")
    if word in EIN_WORDS and weak and (word, of) != ("a", "p"):
        return "en"
    return STRONG[case][of]


def contracted(words: str) -> str:
    """Im for "in dem", at the beginning of a phrase."""
    for long, short in CONTRACTIONS.items():
        if words.startswith(f"{long} "):
            return short + words[len(long) :]
    return words


def present_of(infinitive: str, person: str) -> str:
    """The present of an auxiliary or a modal."""
    return IRREGULAR[infinitive][_place(person)]


def present(verb: GermanVerb, person: str) -> str:
    """The present without prefix."""
    infinitive = verb.infinitive
    if infinitive in IRREGULAR:
        return present_of(infinitive, person)
    if person in ("he", "she", "it"):
        return verb.third
    if person == "I":
        eln = infinitive.endswith("eln")  # ich lächle
        return f"{infinitive[:-3]}le" if eln else infinitive[:-1]
    return infinitive


def simple_past(infinitive: str, person: str) -> str:
    """The simple past, which only sein, haben and the modals use here."""
    return IRREGULAR[infinitive][4 if _place(person) == 2 else 3]


def infinitive(verb: GermanVerb) -> str:
    """The infinitive with its prefix: abfahren."""
    return f"{verb.prefix}{verb.infinitive}"


def past_participle(verb: GermanVerb) -> str:
    """The participle with its prefix: abgefahren."""
    return f"{verb.prefix}{verb.participle}"


def _place(person: str) -> int:
    return {"I": 0, "he": 1, "she": 1, "it": 1}.get(person, 2)
