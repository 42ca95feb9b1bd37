"""The carrier sentences: one sentence in English, German and French, with slots.

A slot is a name in braces: a kind of `slots.KINDS`, and a digit where a sentence has
several of one kind; `{time1}` is then before `{time2}`. A slot stands where its text
is right for all of its values, since nothing is inflected: German units are subjects
or objects, never datives; a French noun of {words} is masculine, of {words_f} may be
feminine; no French elision meets a slot.

The sentences are written with plain spaces. French gets the spaces that CLDR's French
uses, too: U+00A0 before a colon, U+202F before other high punctuation.
"""

from __future__ import annotations

import dataclasses
import re
import string

from keras_transformer.data.phrasebook import daily_life
from keras_transformer.data.phrasebook import short_daily_life
from keras_transformer.data.phrasebook import short_travel
from keras_transformer.data.phrasebook import travel


@dataclasses.dataclass(frozen=True)
class Carrier:
    """One sentence in three languages with the same slots.

    Args:
        templates: by language, as for `str.format`.
        slots: the names of the slots, in the order of English.
    """

    templates: dict[str, str]
    slots: tuple[str, ...]


def kind_of(slot: str) -> str:
    """The kind of a slot: its name without the digit."""
    return slot.rstrip("0123456789")


def _parse(text: str) -> tuple[Carrier, ...]:
    return tuple(_carrier(*block.splitlines()) for block in text.split("\n\n"))


def _carrier(english: str, german: str, french: str) -> Carrier:
    french = re.sub(" (?=[;?!])", "\u202f", french.replace(" :", "\u00a0:"))
    fields = string.Formatter().parse(english)
    slots = tuple(name for _, name, _, _ in fields if name)
    return Carrier({"en": english, "de": german, "fr": french}, slots)


CARRIERS = _parse(travel.TEXT) + _parse(daily_life.TEXT)

#: The short sentence that each carrier contains; "The train leaves" comes besides.
SHORT_CARRIERS = _parse(short_travel.TEXT) + _parse(short_daily_life.TEXT)
