"""Values of slots as text in a language: by Babel from CLDR, by num2words in words.

Each function takes a value and a language (`"en"`, `"de"`, `"fr"`) and returns text;
those whose name ends in `_in` make such a function.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable
from decimal import Decimal
from typing import Any
from typing import Literal

import num2words
from babel import Locale
from babel import dates
from babel import numbers
from babel import units

Rendering = Callable[[Any, str], str]

_AND = {"en": "and", "de": "und", "fr": "et"}


def same(value: Any, language: str) -> str:
    """A code that reads alike in every language."""
    return str(value)


# === Dates and times ===


def date_in(style: str) -> Rendering:
    """A date in CLDR's style `"full"`, `"long"` or `"medium"`."""
    return lambda day, language: dates.format_date(day, style, locale=language)


def date_fields_in(skeleton: str) -> Rendering:
    """Only some parts of a date: `"MMMMd"` is "March 4", `"yMMMM"` "March 2025"."""
    return lambda day, language: dates.format_skeleton(skeleton, day, locale=language)


def time(value: datetime.time, language: str) -> str:
    """2:35 PM, 14:35, 14:35."""
    return dates.format_time(value, "short", locale=language)


def appointment(value: tuple[int, datetime.time], language: str) -> str:
    """Tuesday at 2:35 PM, Dienstag um 14:35 Uhr, mardi à 14:35."""
    weekday = Locale(language).days["format"]["wide"][value[0]]
    joint = {"en": "at", "de": "um", "fr": "à"}[language]
    unit = " Uhr" if language == "de" else ""
    return f"{weekday} {joint} {time(value[1], language)}{unit}"


def duration(value: tuple[int, int], language: str) -> str:
    """2 hours and 35 minutes, 2 Stunden und 35 Minuten, 2 heures et 35 minutes."""
    hours, minutes = value
    return (
        f"{unit_in('duration-hour', 'long')(hours, language)} {_AND[language]} "
        f"{unit_in('duration-minute', 'long')(minutes, language)}"
    )


# === Numbers, money and units ===


def decimal(number: int, language: str) -> str:
    """1,234 and 1.234 and, with a narrow no-break space, 1 234."""
    return numbers.format_decimal(number, locale=language)


def percent(value: Decimal, language: str) -> str:
    """12.5% and, with a no-break space, 12,5 %."""
    return numbers.format_percent(
        value / 100, locale=language, decimal_quantization=False
    )


def compact(number: Decimal, language: str) -> str:
    """3.2 million, 3,2 Millionen, 3,2 millions."""
    return numbers.format_compact_decimal(
        number, format_type="long", locale=language, fraction_digits=1
    )


def price(value: tuple[str, Decimal], language: str) -> str:
    """€12.50 and, with a no-break space, 12,50 €."""
    currency, amount = value
    return numbers.format_currency(amount, currency, locale=language)


def money(value: tuple[str, int], language: str) -> str:
    """1,250 Swiss francs, 1.250 Schweizer Franken, 1 250 francs suisses."""
    currency, amount = value
    return numbers.format_currency(
        amount,
        currency,
        format="#,##0",
        locale=language,
        currency_digits=False,
        format_type="name",
    )


def unit_in(unit: str, length: Literal["long", "short"]) -> Rendering:
    """A quantity in a unit of CLDR, `"long"` (kilograms) or `"short"` (kg)."""
    return lambda value, language: units.format_unit(
        value, unit, length, locale=language
    )


# === Words ===


def cardinal(number: int, language: str) -> str:
    """Three hundred and twenty, dreihundertzwanzig, trois cent vingt."""
    return num2words.num2words(number, lang=language)


def ordinal(number: int, language: str) -> str:
    """Twenty-third, dreiundzwanzigste, vingt-troisième."""
    return num2words.num2words(number, lang=language, to="ordinal")


def two_languages(codes: tuple[str, str], language: str) -> str:
    """Italian and Polish, Italienisch und Polnisch, italien et polonais."""
    first, second = (Locale(language).languages[code] for code in codes)
    return f"{first} {_AND[language]} {second}"


def route(codes: tuple[str, str], language: str) -> str:
    """Italy – Norway, Italien – Norwegen, Italie – Norvège."""
    return " – ".join(Locale(language).territories[code] for code in codes)
