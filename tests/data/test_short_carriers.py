"""Every carrier of the phrasebook comes as a short sentence, too."""

import re

import pytest

from keras_transformer.data.phrasebook.carriers import CARRIERS
from keras_transformer.data.phrasebook.carriers import SHORT_CARRIERS
from keras_transformer.data.phrasebook.carriers import kind_of

pytestmark = pytest.mark.no_backend

# "The train leaves at ..." comes besides, without the train's number.
BARE, SHORT = SHORT_CARRIERS[0], SHORT_CARRIERS[1:]


def words(text):
    """The words of a template but its slots; their beginnings, as forms may differ."""
    return {word[:4] for word in re.findall(r"[^\W\d_]+", re.sub("{.*?}", "", text))}


def test_every_carrier_has_a_short_one():
    assert len(SHORT) == len(CARRIERS)
    assert BARE.templates["en"] == "The train leaves at {time}."
    for short, carrier in zip(SHORT, CARRIERS, strict=True):
        for language, template in short.templates.items():
            assert len(template.split()) <= len(carrier.templates[language].split())
            assert words(template) & words(carrier.templates[language]), template


def test_short_carriers_are_short():
    lengths = [len(carrier.templates["en"].split()) for carrier in SHORT_CARRIERS]
    assert sum(lengths) / len(lengths) < 8
    assert max(lengths) <= 11


def test_short_carriers_have_the_same_slots_in_every_language():
    for carrier in SHORT_CARRIERS:
        assert carrier.slots
        for template in carrier.templates.values():
            assert sorted(re.findall(r"{(\w+)}", template)) == sorted(carrier.slots)


def test_slots_are_of_known_kinds():
    pytest.importorskip("babel", reason="needs the extra 'phrasebook'")
    from keras_transformer.data.phrasebook.slots import KINDS

    slots = {slot for carrier in SHORT_CARRIERS for slot in carrier.slots}
    assert {kind_of(slot) for slot in slots} <= set(KINDS)


def test_what_documents_show_is_among_them():
    templates = {carrier.templates["en"] for carrier in SHORT_CARRIERS}
    assert "Room {room} costs {price} per night." in templates
    assert "The cathedral is {meters} high." in templates
