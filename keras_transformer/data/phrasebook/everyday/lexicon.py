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
"""

from __future__ import annotations

import csv
import functools
import re
from collections.abc import Iterable
from pathlib import Path

from keras_transformer.data.phrasebook.everyday.words import Adjective
from keras_transformer.data.phrasebook.everyday.words import FrenchVerb
from keras_transformer.data.phrasebook.everyday.words import GermanVerb
from keras_transformer.data.phrasebook.everyday.words import Noun
from keras_transformer.data.phrasebook.everyday.words import Phrase
from keras_transformer.data.phrasebook.everyday.words import Verb

TABLES = Path(__file__).with_name("tables")


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
    return tuple(_phrase(*row) for row in rows(table))


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


def _phrase(english: str, german: str, french: str, *kinds: str) -> Phrase:
    return Phrase(english, german, french, frozenset(" ".join(kinds).split()))


def _matched(pattern: str | re.Pattern[str], text: str) -> re.Match[str]:
    if match := re.fullmatch(pattern, text):
        return match
    raise ValueError(f"{text!r} is not written as the tables are")


def _pair(text: str) -> tuple[str, str]:
    first, _, second = text.partition("/")
    return first, second


def _noun(english: str, german: str, plural: str, french: str, kinds: str) -> Noun:
    singular, many = _pair(english)
    article, _, german = german.partition(" ")
    german, weak = _pair(german)
    marker, french = _matched(r"(un |une |du |de la |de l')(.*)", french).groups()
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
    parts = _matched(_GERMAN, whole).groupdict(default="")
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
    reflexive, infinitive, rest = _matched(r"(se |s')?(\w+) ?(.*)", text).groups()
    words = rest.split()
    preposition = words.pop() if words and words[-1] in ("à", "de", "avec") else ""
    return FrenchVerb(infinitive, bool(reflexive), " ".join(words), preposition)


def _adjective(english: str, german: str, french: str, kinds: str) -> Adjective:
    french, *marks = re.split(r" (?=[<!=])", french)
    masculine, *forms = french.split(", ")
    feminine, vowel = [*forms, "", ""][:2]
    words = _matched(r"([^,/( ]+)(?:/([^,( ]+))?(?:, ([^( ]+))?(?: \((\w+)\))?", german)
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
