"""Values that fill the slots of each kind, and which of them are held out.

Values are chosen so that no text needs another form: counts start at 2, no date is the
first of a month (CLDR's French has "1 janvier" for "1er janvier"), no number in words
ends in one after hundreds (German "hunderteins" changes before a noun), currencies by
name are those whose German name is not an adjective and a noun.

Flight, train, order and phone numbers are invented; the phone numbers lie in ranges
that the French and the German authorities keep free for films.
"""

from __future__ import annotations

import dataclasses
import datetime
import functools
import itertools
from collections.abc import Callable
from collections.abc import Iterable
from decimal import Decimal
from typing import Any
from typing import Literal

from keras_transformer.data.phrasebook import rendering
from keras_transformer.data.phrasebook.held_out import split_by_hash

HELD_OUT = {"test": 0.12, "validation": 0.08}  # shares of the values of a family
_SALT = "165"  # one that leaves the small kinds several values in each split


@dataclasses.dataclass(frozen=True)
class Kind:
    """One kind of slot.

    Args:
        family: values of one family are held out together, in all of its kinds.
        values: all that may fill the slot.
        text: value and language to text.
        held_out_by: the part of a value that decides whether it is held out.
    """

    family: str
    values: tuple[Any, ...]
    text: rendering.Rendering
    held_out_by: Callable[[Any], Any] = lambda value: value

    def mark(self, value: Any) -> str:
        """What is held out with this value, as one string."""
        return f"{self.family} {self.held_out_by(value)}"

    def values_of(self, split: str) -> list[Any]:
        """The values of one split; the splits have none in common."""
        return [value for value in self.values if _split(self.mark(value)) == split]


@functools.cache
def _split(mark: str) -> str:
    return split_by_hash(f"{_SALT} {mark}", HELD_OUT)


_DAYS = tuple(
    day
    for day in (
        datetime.date(2020, 1, 1) + datetime.timedelta(count) for count in range(3653)
    )
    if day.day > 1
)
_LANGUAGES = ("de", "fr", "es", "it", "pt", "nl", "pl", "sv", "da", "fi")
_LANGUAGES += ("cs", "hu", "el", "tr", "ro", "en", "ja")
_COUNTRIES = ("DE", "FR", "ES", "IT", "PT", "PL", "SE", "DK", "FI", "NO")
_COUNTRIES += ("CZ", "HU", "GR", "RO", "AT", "BE", "IE", "IS", "HR", "EE")


def _times(first_hour: int, last_hour: int) -> tuple[datetime.time, ...]:
    return tuple(
        datetime.time(hour, minute)
        for hour in range(first_hour, last_hour + 1)
        for minute in range(60)
    )


def _tenths(low: int, high: int) -> tuple[Decimal, ...]:
    return tuple(Decimal(step) / 10 for step in range(10 * low, 10 * high))


def _twentieths(low: int, high: int) -> tuple[Decimal, ...]:
    return tuple(Decimal(5 * step) / 100 for step in range(20 * low + 1, 20 * high))


def _prices(*currencies: str) -> tuple[tuple[str, Decimal], ...]:
    return tuple(itertools.product(currencies, _twentieths(2, 200)))


def _date(style: str) -> Kind:
    return Kind("date", _DAYS, rendering.date_in(style))


def _unit(unit: str, length: Literal["long", "short"], values: Iterable[Any]) -> Kind:
    return Kind(unit, tuple(values), rendering.unit_in(unit, length))


def _words(values: Iterable[int]) -> Kind:
    numbers = tuple(number for number in values if number % 100 != 1)
    return Kind("words", numbers, rendering.cardinal)


def _codes(family: str, values: Iterable[Any]) -> Kind:
    return Kind(family, tuple(values), rendering.same)


KINDS: dict[str, Kind] = {
    "date": _date("long"),
    "full": _date("full"),
    "medium": _date("medium"),
    "day": Kind(
        "day",
        tuple(day for day in _DAYS if day.year == 2020),
        rendering.date_fields_in("MMMMd"),
    ),
    "month": Kind(
        "month",
        tuple(
            datetime.date(year, month, 1)
            for year in range(2005, 2030)
            for month in range(1, 13)
        ),
        rendering.date_fields_in("yMMMM"),
    ),
    "time": Kind("time", _times(6, 22), rendering.time),
    "morning": Kind("time", _times(6, 11), rendering.time),
    "evening": Kind("time", _times(16, 22), rendering.time),
    "appointment": Kind(
        "time",
        tuple(itertools.product(range(7), _times(8, 19))),
        rendering.appointment,
        held_out_by=lambda value: value[1],
    ),
    "duration": Kind(
        "duration",
        tuple(itertools.product(range(2, 13), range(2, 60))),
        rendering.duration,
    ),
    "price": Kind("price", _prices("EUR", "USD", "GBP", "CAD"), rendering.price),
    "euros": Kind("price", _prices("EUR"), rendering.price),
    "amount": Kind(
        "amount",
        tuple(itertools.product(("EUR", "USD", "CHF"), range(50, 9_960, 10))),
        rendering.money,
    ),
    "percent": Kind("percent", _tenths(2, 100), rendering.percent),
    "rate": Kind("rate", _twentieths(2, 10), rendering.percent),
    "number": Kind("number", tuple(range(102, 9_999)), rendering.decimal),
    "millions": Kind(
        "compact",
        tuple(1_000_000 * value for value in _tenths(2, 100)),
        rendering.compact,
    ),
    "billions": Kind(
        "compact",
        tuple(1_000_000_000 * value for value in _tenths(2, 30)),
        rendering.compact,
    ),
    "words": _words(range(2, 1000)),
    "words_f": _words(
        number
        for number in range(2, 1000)
        if number % 10 != 1 or number % 100 in (11, 71, 91)  # French "onze"
    ),
    "thousands": _words(range(1000, 10_000)),
    "ordinal": Kind(
        "ordinal",
        tuple(number for number in range(21, 70) if number % 10),
        rendering.ordinal,
    ),
    "distance": _unit("length-kilometer", "long", range(2, 991)),
    "km": _unit("length-kilometer", "short", _tenths(2, 100)),
    "meters": _unit("length-meter", "long", range(20, 401)),
    "altitude": _unit("length-meter", "short", range(400, 4_801)),
    "centimeters": _unit("length-centimeter", "long", range(20, 251)),
    "height": _unit("length-centimeter", "long", range(90, 216)),
    "millimeters": _unit("length-millimeter", "long", range(2, 181)),
    "weight": _unit("mass-kilogram", "long", _tenths(8, 91)),
    "kg": _unit("mass-kilogram", "short", _tenths(2, 31)),
    "grams": _unit("mass-gram", "long", range(50, 1000, 5)),
    "liters": _unit("volume-liter", "long", _tenths(2, 61)),
    "milliliters": _unit("volume-milliliter", "long", range(15, 400, 5)),
    "speed": _unit("speed-kilometer-per-hour", "short", range(60, 261)),
    "area": _unit("area-square-meter", "long", range(12, 481)),
    "hectares": _unit("area-hectare", "long", range(2, 481)),
    "data": _unit("digital-gigabyte", "short", _tenths(2, 65)),
    "energy": _unit("energy-kilowatt-hour", "short", range(120, 5_000)),
    "pressure": _unit("pressure-hectopascal", "short", range(960, 1_046)),
    "celsius": _unit("temperature-celsius", "short", _tenths(2, 40)),
    "degrees": _unit("temperature-celsius", "long", _tenths(16, 40)),
    "fever": _unit(
        "temperature-celsius", "short", (Decimal(t) / 10 for t in range(375, 412))
    ),
    "minutes": _unit("duration-minute", "long", range(2, 91)),
    "days": _unit("duration-day", "long", range(2, 61)),
    "weeks": _unit("duration-week", "long", range(2, 61)),
    "months": _unit("duration-month", "long", range(2, 61)),
    "years": _unit("duration-year", "long", range(2, 81)),
    "age": _codes("age", range(13, 100)),
    "year": _codes("year", range(1870, 2026)),
    "small": _codes("small", range(2, 41)),
    "house": _codes("house", range(2, 300)),
    "room": _codes("room", range(101, 1000)),
    "extension": _codes("extension", range(1000, 10_000)),
    "seat": _codes("seat", (f"{r}{s}" for r in range(2, 61) for s in "ABCDEF")),
    "gate": _codes("gate", (f"{g}{n}" for g in "ABCDEF" for n in range(2, 80))),
    "flight": _codes(
        "flight",
        (f"{a} {n}" for a in ("AF", "BA", "KL", "LH", "TP") for n in range(100, 3000)),
    ),
    "train": _codes(
        "train",
        (f"{c} {n}" for c in ("EC", "IC", "ICE", "RE", "TGV") for n in range(20, 3000)),
    ),
    "order": _codes(
        "order",
        (f"{letter}-{n}" for letter in "ABCDEFGH" for n in range(1000, 10_000)),
    ),
    "phone": _codes(
        "phone",
        [f"+33 1 99 00 {a:02} {b:02}" for a in range(100) for b in range(100)]
        + [f"+49 30 23125 {n:03}" for n in range(1000)],
    ),
    "languages": Kind(
        "languages",
        tuple(itertools.permutations(_LANGUAGES, 2)),
        rendering.two_languages,
    ),
    "route": Kind(
        "route", tuple(itertools.permutations(_COUNTRIES, 2)), rendering.route
    ),
}
