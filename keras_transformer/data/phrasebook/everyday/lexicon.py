"""The words of the everyday part: one table a part of speech, in `tables/`.

Regular forms come from rules (`english_words.py`, `german_words.py`,
`french_words.py`); a table lists what no rule gives:

* `nouns.tsv`: "man/men" is singular and plural; "der Junge/Jungen" is a weak noun,
  with the form of all other cases; "un œil/yeux" an irregular plural; "-" no plural.
* `verbs.tsv`: "come/came back" is base, past and a rest; "an|kommen, kommt, ist
  gekommen" has a separable prefix, third person and participle, with "ist" for the
  auxiliary sein; "(keinen) Hunger haben" has a word before it, and what negates it;
  "(auf acc) warten" governs a preposition and a case.
* `adjectives.tsv`: comparatives after a comma; "<" stands before a French noun.
* `french_verbs.tsv`: all forms of irregular verbs.

Kinds restrict what goes with what: an animal eats food, and a table does not.
"""

from __future__ import annotations

import csv
import dataclasses
import functools
import re
from collections.abc import Iterable
from pathlib import Path

TABLES = Path(__file__).with_name("tables")


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
        flags: "state" has no progressive, modal or command; "point" and "free" have no
            progressive; "chance" is not meant; "own" is done to what is one's own;
            "generic" to all there is of a kind; "hour" is said with a time; "once" is not done often; "give" takes a recipient; "ask" makes a good command; "like":
            one may like to do it.
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
        flags: "!" only as a predicate.
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


def rows(table: str) -> list[list[str]]:
    """The rows of a table, without its first line, which names the columns."""
    with (TABLES / f"{table}.tsv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]


@functools.cache
def nouns() -> tuple[Noun, ...]:
    """All nouns."""
    return tuple(_noun(*row) for row in rows("nouns"))


@functools.cache
def verbs() -> tuple[Verb, ...]:
    """All verbs, "be" and "have" among them."""
    return tuple(_verb(*row) for row in rows("verbs"))


@functools.cache
def adjectives() -> tuple[Adjective, ...]:
    """All adjectives."""
    return tuple(_adjective(*row) for row in rows("adjectives"))


@functools.cache
def phrases(table: str) -> tuple[Phrase, ...]:
    """The phrases of a table: `times`, `places`, `adverbs`, `names`, `phrases`, ..."""
    return tuple(
        Phrase(*row[:3], frozenset(" ".join(row[3:]).split())) for row in rows(table)
    )


@functools.cache
def verb(english: str, german: str = "") -> Verb:
    """The verb of this English, "get up", and of this German if there are two."""
    return next(
        each
        for each in verbs()
        if f"{each.english} {each.english_rest}".strip() == english
        and german in ("", each.german.infinitive)
    )


@functools.cache
def noun(english: str) -> Noun:
    """The noun of this English."""
    return next(each for each in nouns() if each.english == english)


@functools.cache
def adjective(english: str) -> Adjective:
    """The adjective of this English."""
    return next(each for each in adjectives() if each.english == english)


def of_kind(kinds: Iterable[str]) -> tuple[Noun, ...]:
    """The nouns of any of these kinds."""
    return _of_kind(frozenset(kinds))


@functools.cache
def _of_kind(kinds: frozenset[str]) -> tuple[Noun, ...]:
    return tuple(each for each in nouns() if kinds & each.kinds)


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition("/")
    return first, second


def _noun(english: str, german: str, plural: str, french: str, kinds: str) -> Noun:
    singular, many = _pair(english)
    article, _, german = german.partition(" ")
    german, weak = _pair(german)
    marker, french = re.fullmatch(r"(un |une |du |de la |de l')(.*)", french).groups()
    french, french_plural = _pair(french)
    feminine = marker in ("une ", "de la ") or french == "eau"
    return Noun(
        singular,
        "" if plural == "-" else many or _plural(singular),
        german,
        {"der": "m", "die": "f", "das": "n"}[article],
        "" if plural == "-" else plural,
        weak,
        french,
        "f" if feminine else "m",
        french_plural,
        frozenset({*kinds.split(), singular}),
    )


def _plural(english: str) -> str:
    """Stories, boxes, dogs."""
    if re.search("[^aeiou]y$", english):
        return f"{english[:-1]}ies"
    return f"{english}es" if re.search("(s|x|ch)$", english) else f"{english}s"


def _verb(
    english: str,
    german: str,
    french: str,
    subjects: str,
    objects: str,
    places: str,
    flags: str,
) -> Verb:
    first, *rest = english.split(" ")
    base, past = _pair(first)
    return Verb(
        base,
        past or re.sub("e?$", "ed", base, count=1),
        " ".join(rest),
        _german_verb(german),
        _french_verb(french),
        frozenset(subjects.split()) - {"-"},
        frozenset(objects.split()) - {"-"},
        frozenset(places.replace("!", "").split()),
        "!" in places,
        frozenset(flags.split()),
    )


_GERMAN = re.compile(
    r"(?:\((?P<preposition>\S+ )?(?P<case>acc|dat)\) )?"
    r"(?:\((?P<denied>\S+)\) )?(?P<reflexive>sich )?(?P<before>[^|]* )?"
    r"(?:(?P<prefix>\w+)\|)?(?P<infinitive>\w+)"
)


def _german_verb(text: str) -> GermanVerb:
    whole, *forms = text.split(", ")
    parts = _GERMAN.fullmatch(whole).groupdict(default="")
    infinitive = parts["infinitive"]
    stem = re.sub("e?n$", "", infinitive)
    link = "e" if re.search("([td]|[^aeiourlh]n)$", stem) else ""
    third, participle = [*forms, f"{stem}{link}t", f"ge{stem}{link}t"][:2]
    if len(forms) == 1:
        third = forms[0]
    auxiliary, _, last = participle.rpartition(" ")
    return GermanVerb(
        infinitive,
        third,
        last,
        "sein" if auxiliary == "ist" else "haben",
        parts["prefix"],
        bool(parts["reflexive"]),
        parts["before"].strip(),
        parts["denied"],
        parts["preposition"].strip(),
        parts["case"] or "acc",
    )


def _french_verb(text: str) -> FrenchVerb:
    reflexive, infinitive, rest = re.fullmatch(r"(se |s')?(\w+) ?(.*)", text).groups()
    words = rest.split()
    preposition = words.pop() if words and words[-1] in ("à", "de", "avec") else ""
    return FrenchVerb(infinitive, bool(reflexive), " ".join(words), preposition)


def _adjective(english: str, german: str, french: str, kinds: str) -> Adjective:
    french, *marks = re.split(r" (?=[<!=])", french)
    masculine, *others = french.split(", ")
    feminine, vowel = [*others, "", ""][:2]
    words = re.fullmatch(
        r"([^,/( ]+)(?:/([^,( ]+))?(?:, ([^( ]+))?(?: \((\w+)\))?", german
    )
    positive, stem, comparative, more = words.groups(default="")
    stem = stem or positive
    return Adjective(
        english,
        {"": "", "more": f"more {english}"}.get(more, more) or _comparative(english),
        positive,
        stem,
        comparative or f"{stem}er",
        masculine,
        feminine or _feminine(masculine),
        vowel or masculine,
        "<" in marks,
        "=" in marks,
        frozenset(kinds.split()),
        "!" in marks,
    )


def _comparative(english: str) -> str:
    """Older, bigger, happier."""
    if re.search("[^aeiou]y$", english):
        return f"{english[:-1]}ier"
    if re.search("[^aeiou][aeiou][bdgnt]$", english):
        return f"{english}{english[-1]}er"
    return re.sub("e?$", "er", english, count=1)


def _feminine(masculine: str) -> str:
    """Petite, rouge, heureuse."""
    if masculine.endswith("e"):
        return masculine
    return (
        re.sub("eux$", "euse", masculine)
        if masculine.endswith("eux")
        else (f"{masculine}e")
    )
