"""French words: elision, articles, endings, forms of verbs."""

from __future__ import annotations

import functools
import re

from keras_transformer.data.phrasebook.everyday.lexicon import rows
from keras_transformer.data.phrasebook.everyday.words import Adjective
from keras_transformer.data.phrasebook.everyday.words import Noun

VOWELS = "aàâeéèêiîoôuûœh"  # no word here begins with an h that is sounded
UNELIDED = ("onze", "huit", "oui", "haut")

# Masculine, feminine and plural.
POSSESSIVES = {
    "my": ("mon", "ma", "mes"),
    "your": ("votre", "votre", "vos"),
    "his": ("son", "sa", "ses"),
    "her": ("son", "sa", "ses"),
    "our": ("notre", "notre", "nos"),
    "their": ("leur", "leur", "leurs"),
}
ARTICLES = {
    "the": ("le", "la", "les"),
    "generic": ("le", "la", "les"),
    "a": ("un", "une", "des"),
    "mass": ("du", "de la", "des"),
    "this": ("ce", "cette", "ces"),
    "which": ("quel", "quelle", "quels"),
    **POSSESSIVES,
}
SUBJECTS = {
    "I": "je",
    "you": "vous",
    "he": "il",
    "she": "elle",
    "it": "il",
    "we": "nous",
    "they": "ils",
    "they all women": "elles",
}
DIRECT = {
    "I": "me",
    "you": "vous",
    "he": "le",
    "she": "la",
    "it": "le",
    "we": "nous",
    "they": "les",
}
INDIRECT = {**DIRECT, "he": "lui", "she": "lui", "it": "lui", "they": "leur"}
STRESSED = {
    "I": "moi",
    "you": "vous",
    "he": "lui",
    "she": "elle",
    "it": "lui",
    "we": "nous",
    "they": "eux",
    "they all women": "elles",
}
REFLEXIVE = {"I": "me", "you": "vous", "we": "nous"}  # of all others: se
ETRE = {"aller", "venir", "revenir", "arriver", "partir", "rester", "rentrer"}


def is_vowel(words: str) -> bool:
    """Whether the article before these words loses its vowel."""
    return words[0].lower() in VOWELS and not words.startswith(UNELIDED)


def elided(text: str) -> str:
    """L'eau, je n'aime, qu'il, s'il: the vowel that is lost before another one."""
    vowel = f"(?!{'|'.join(UNELIDED)})(?=[{VOWELS}{VOWELS.upper()}])"
    # Not after a hyphen: "Appelez-la aujourd'hui".
    text = re.sub(
        rf"(?<![-\w])([jlmnsd]|qu)(?:e|(?<=l)a) {vowel}", r"\1'", text, flags=re.I
    )
    text = re.sub(r"\bce (?=est\b)", "c'", text)
    return re.sub(r"\bsi (?=ils?\b)", "s'", text)


def determiner(word: str, feminine: bool, plural: bool, next_words: str) -> str:
    """An article or a possessive, as the word that follows asks for."""
    masculine_form, feminine_form, plural_form = ARTICLES[word]
    if plural:
        return "quelles" if word == "which" and feminine else plural_form
    if is_vowel(next_words):
        if word == "mass":
            return "de la" if feminine else "de le"  # both become "de l'"
        if word == "this" and not feminine:
            return "cet"
        if feminine_form in ("ma", "sa"):
            return masculine_form
    return feminine_form if feminine else masculine_form


def prepositional(preposition: str, phrase: str) -> str:
    """Au, aux, du and des where an article follows; elision comes later."""
    short = {"à": ("au", "aux"), "de": ("du", "des")}.get(preposition.split()[-1])
    first, _, rest = phrase.partition(" ")
    if short and first in ("le", "les") and not (first == "le" and is_vowel(rest)):
        before = preposition.split()[:-1]
        return " ".join([*before, short[first == "les"], rest])
    return f"{preposition} {phrase}"


def plural_of(word: str) -> str:
    """Chevaux, gâteaux, gros: the plural by the rule."""
    if re.search("[sxz]$", word):
        return word
    if word.endswith("al"):
        return f"{word[:-2]}aux"
    return f"{word}x" if re.search("eau$", word) else f"{word}s"


def noun_form(noun: Noun, plural: bool) -> str:
    """The noun in the singular or plural."""
    if not plural:
        return noun.french
    return noun.french_plural or plural_of(noun.french)


def adjective_form(
    adjective: Adjective, feminine: bool, plural: bool, next_words: str = ""
) -> str:
    """The adjective as its noun asks for: vieux, vieil, vieille, vieilles."""
    if adjective.french_fixed:
        return adjective.french
    if feminine:
        form = adjective.french_feminine
    elif next_words and not plural and is_vowel(next_words):
        form = adjective.french_vowel
    else:
        form = adjective.french
    return plural_of(form) if plural else form


# === Verbs ===

PLACES = {"I": 0, "he": 1, "she": 1, "it": 1, "we": 2, "you": 3, "they": 4}
BASES = {"revenir": ("re", "venir"), "sourire": ("sou", "rire")}


@functools.cache
def _irregular() -> dict[str, list[str]]:
    return {infinitive: forms for infinitive, *forms in rows("french_verbs")}


@functools.cache
def forms(infinitive: str) -> list[str]:
    """The forms of je, il, nous, vous, ils, the participle and the future's stem."""
    before, base = BASES.get(infinitive, ("", infinitive))
    if base in _irregular():
        return [f"{before}{form}" for form in _irregular()[base]]
    stem = infinitive[:-2]
    if infinitive.endswith("er"):
        soft = {"g": f"{stem}e", "c": f"{stem[:-1]}ç"}.get(stem[-1], stem)
        ends = [f"{stem}e", f"{stem}e", f"{soft}ons", f"{stem}ez", f"{stem}ent"]
        return [*ends, f"{stem}é", infinitive]
    if infinitive.endswith("ir"):
        ends = [f"{stem}{end}" for end in ("is", "it", "issons", "issez", "issent")]
        return [*ends, f"{stem}i", infinitive]
    if infinitive.endswith("dre"):
        ends = [f"{stem}{end}" for end in ("s", "", "ons", "ez", "ent")]
        return [*ends, f"{stem}u", infinitive[:-1]]
    raise KeyError(infinitive)


def present(infinitive: str, person: str) -> str:
    """Dors, dort, dormons."""
    return forms(infinitive)[PLACES[person]]


def participle(infinitive: str) -> str:
    """Dormi, masculine singular."""
    return forms(infinitive)[5]


def future(infinitive: str, person: str) -> str:
    """Dormirai, dormira, dormirons."""
    return forms(infinitive)[6] + ("ai", "a", "ons", "ez", "ont")[PLACES[person]]


def conditional(infinitive: str, person: str) -> str:
    """Voudrais, voudrait, voudrions."""
    return forms(infinitive)[6] + _imperfect_ending(person)


def imperfect(infinitive: str, person: str) -> str:
    """Étais, avait, pouvions: from the form of nous, but of être."""
    stem = "ét" if infinitive == "être" else forms(infinitive)[2][:-3]
    return stem + _imperfect_ending(person)


def _imperfect_ending(person: str) -> str:
    return ("ais", "ait", "ions", "iez", "aient")[PLACES[person]]


def agreeing(participle_form: str, feminine: bool, plural: bool) -> str:
    """Allée, allés, prises: a participle with its endings."""
    form = f"{participle_form}{'e' * feminine}"
    return form if not plural or form.endswith("s") else f"{form}s"
